"""Results as files and as a table."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from rich.console import Console

from cacr.config import FORMAT
from cacr.errors import UserError
from cacr.evaluation import Result, read_results, write_result
from cacr.reporting.results import results_table

RESULT = Result(
    protocol="knn",
    subject="encoder",
    score=0.75,
    spread=None,
    data="p1/lab",
    test_data="p1/lab",
    split="the test part of p1/lab",
    labels_per_class=None,
    counts={"train_images": 3, "test_images": 2, "classes": 2, "unreadable": 0},
    settings={"k": 20},
    seed=0,
    details={},
    encoder={},
    training={},
)


def test_different_measurements_never_share_a_file(tmp_path: Path) -> None:
    different = [
        RESULT,
        replace(RESULT, data="p2/lab", test_data="p2/lab"),
        replace(RESULT, test_data="p2/lab"),
        replace(RESULT, seed=1),
        replace(RESULT, settings={"k": 10}),
        replace(RESULT, subject="pixels"),
        replace(RESULT, labels_per_class=10),
        replace(RESULT, protocol="linear"),
        replace(RESULT, metric="mean-per-class"),
    ]
    names = [write_result(tmp_path, result).name for result in different]
    assert all(name.startswith(("knn-lab-", "linear-lab-")) for name in names)
    assert names[5].startswith("knn-lab-pixels-") and names[6].startswith("knn-lab-10-per-class-")
    found = read_results(tmp_path)
    assert len(found) == len(different) and all(result in found for result in different)
    assert write_result(tmp_path, replace(RESULT, score=0.5)).name == names[0]  # measured again
    assert len(list(tmp_path.iterdir())) == len(different)


@pytest.mark.parametrize("sign", ["x", "é", "漢"])
def test_long_names_are_cut(tmp_path: Path, sign: str) -> None:
    result = replace(RESULT, data="a" + sign * 250, test_data="b" + sign * 250, labels_per_class=1000)
    path = write_result(tmp_path, result)
    assert path.name.startswith(f"knn-a{sign * 15}")
    assert read_results(tmp_path) == [result]


def test_files_that_are_no_results_are_left_alone(tmp_path: Path) -> None:
    write_result(tmp_path, RESULT)
    foreign = ["", "{", "5", "[]", "{}", '{"format": 99}']
    for number, text in enumerate(foreign):
        (tmp_path / f"{number}.json").write_text(text)
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    (tmp_path / "folder.json").mkdir()
    assert read_results(tmp_path) == [RESULT]


def test_a_damaged_result_is_named(tmp_path: Path) -> None:
    (tmp_path / "knn.json").write_text(json.dumps({**asdict(RESULT), "score": "high"}))
    with pytest.raises(UserError, match=r"knn\.json is damaged: score.*evaluate the run again"):
        read_results(tmp_path)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    newer = {"protocol": "knn", "subject": "encoder", "marks": [1, 2], "format": FORMAT + 1}
    (tmp_path / "knn.json").write_text(json.dumps(newer))
    with pytest.raises(UserError, match=f"has format {FORMAT + 1}.*upgrade cacr"):
        read_results(tmp_path)


def test_a_result_without_notes_is_read(tmp_path: Path) -> None:
    values = asdict(RESULT)
    del values["notes"]
    (tmp_path / "knn.json").write_text(json.dumps(values))
    assert read_results(tmp_path) == [RESULT]


def test_a_folder_that_cannot_be_made_is_a_user_error(tmp_path: Path) -> None:
    (tmp_path / "evaluation").touch()
    with pytest.raises(UserError, match=r"cannot create .*evaluation"):
        write_result(tmp_path / "evaluation", RESULT)


def test_names_under_the_table_are_shown_as_they_are() -> None:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(results_table([replace(RESULT, split="a fifth of [bold]\nlab\udcff")]))
    assert r"a fifth of [bold]\nlab\xff" in " ".join(capture.get().split())
