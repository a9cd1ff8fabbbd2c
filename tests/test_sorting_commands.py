"""Selecting, guessing and grouping as a user types them, and their files in other commands."""

import csv
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import cacr
from cacr.cli import app
from cacr.commands.doctor_data import describe_data
from cacr.data import Inspection, open_source
from cacr.evaluation import evaluate_run
from tests.conftest import Run, refused, save_images
from tests.evaluation.conftest import untrained, write_images

__all__ = ["untrained"]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """45 images of three colours in one folder whose name has a space, without labels."""
    tinted = write_images(tmp_path / "tinted", per_class=15, seed=0)
    folder = tmp_path / "my photos"
    folder.mkdir()
    for path in tinted.rglob("*.png"):
        path.rename(folder / f"{path.parent.name}-{path.name}")
    return folder


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _labels(folder: Path, path: Path, each: int = 4) -> Path:
    """Labels of the first few images of each colour, by file name."""
    lines = [f"{file.name},{file.name.split('-')[0]}" for file in sorted(folder.iterdir())]
    kept = [line for line in lines if int(re.findall(r"-(\d+)\.", line)[0]) < each]
    path.write_text("\n".join(["Filename,Class", *kept]) + "\n", encoding="utf-8")
    return path


def test_a_selection_is_a_list_for_other_commands(
    run: Run, untrained: Path, photos: Path, tmp_path: Path
) -> None:
    out = tmp_path / "a list.csv"
    code, text = run("select", untrained, photos, "--number", 9, "--by", "coverage", "--out", out)
    assert (
        code == 0 and "9 of 45 images selected (--by coverage)" in text and out.with_suffix(".html").exists()
    )
    assert len(_rows(out)) == 9 and {row["path"] for row in _rows(out)} <= set(map(str, photos.iterdir()))
    command = shlex.split(text.split("all other images: ")[1])
    assert command[:4] == ["cacr", "predict", str(untrained), str(photos)]
    code, text = run("embed", untrained, photos, "--images", out, "--out", tmp_path / "few.npz")
    assert code == 0 and "9 images of the pretrain part" in text
    code, text = run("search", untrained, "red-3.png", "--data", photos, "--images", f"except:{out}")
    assert code == 0 and "nearest of 36 images" in text
    refused(run, ["select", untrained, photos, "--out", out], "exists already")
    refused(
        run, ["select", untrained, photos, "--out", tmp_path / "b.csv", "--by", "covrage"], "did you mean"
    )
    wrong = ["select", untrained, photos, "--out", tmp_path / "b.csv", "--threshold", 0.5]
    refused(run, wrong, "--threshold works only with --by duplicates")
    refused(run, ["group", untrained, photos, "--out", tmp_path / "b.csv", "--number", "many"], "not 'many'")


def test_what_comes_next_sees_the_same_images(
    run: Run, untrained: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that is proposed has the list, the labels and the features that were given, and runs as it is."""
    monkeypatch.setattr(
        "cacr.commands.doctor_speed.MEASURE_SECONDS", 0.01
    )  # how fast this machine is, nobody asks here
    labels, some = _labels(photos, tmp_path / "my labels.csv"), tmp_path / "some.txt"
    some.write_text("".join(f"{colour}-{n}.png\n" for colour in ("red", "green") for n in range(12)))
    given = ("--images", some, "--labels", labels)
    code, text = run("select", untrained, photos, "--by", "uncertain", "--out", tmp_path / "next.csv", *given)
    assert code == 0 and f"add its rows to {labels}" in text
    words = shlex.split(text.split("all other images: ")[1])
    assert words[:6] == ["cacr", "predict", str(untrained), str(photos), "--labels", str(labels)]
    code, text = run(*words[1:])
    assert code == 0 and "16 predictions" in text
    words = shlex.split(text.split("label next: ")[1])
    assert words[words.index("--images") + 1] == str(some) and run(*words[1:])[0] == 0
    code, text = run("doctor", photos, "--images", some, "--data-root", tmp_path)
    assert code == 0
    for line in text.split("cacr ")[-2:]:
        assert f"--data-root {tmp_path} --images {some}" in line


def test_copies_are_told_from_the_image_that_is_kept(
    run: Run, untrained: Path, photos: Path, tmp_path: Path
) -> None:
    coarse = np.random.default_rng(0).integers(0, 256, (5, 5, 3)).astype(np.uint8)
    original = Image.fromarray(coarse).resize((60, 60), Image.Resampling.BICUBIC)  # smooth, as photos are
    original.save(photos / "red-0.png")
    large = original.resize((180, 180), Image.Resampling.BICUBIC)
    large.save(photos / "large.png")
    large.save(photos / "again.jpg", quality=95)
    out = tmp_path / "copies.csv"
    code, text = run("select", untrained, photos, "--by", "duplicates", "--out", out)
    assert code == 0 and f"except:{out}" in text
    copies = {Path(row["path"]).name: Path(row["kept"]).name for row in _rows(out)}
    assert set(copies) | set(copies.values()) == {"red-0.png", "large.png", "again.jpg"}
    assert len(copies) == 2 and set(copies.values()) <= {"large.png", "again.jpg"}
    assert len(open_source(str(photos), images=f"except:{out}")) == 45
    page = out.with_suffix(".html").read_text(encoding="utf-8")
    assert page.count("<img ") == 3 and page.count("<b>kept</b>") == 1 and "<script" not in page


def test_guesses_are_labels_for_other_commands(
    run: Run, untrained: Path, photos: Path, tmp_path: Path
) -> None:
    labels, out = _labels(photos, tmp_path / "labels.csv"), tmp_path / "guesses.csv"
    code, text = run("predict", untrained, photos, "--labels", labels, "--out", out)
    assert code == 0 and "cross-validation (12 labels, 3 classes)" in text and "33 predictions" in text
    rows = _rows(out)
    assert [float(row["confidence"]) for row in rows] == sorted(float(row["confidence"]) for row in rows)
    right = [row["label"] == Path(row["path"]).name.split("-")[0] for row in rows]
    assert np.mean(right) > 0.8  # colours: any encoder sees them
    code, text = run(
        "group", untrained, photos, "--labels", out, "--number", 3, "--out", tmp_path / "groups.csv"
    )
    assert code == 0 and "45 images in 3 groups" in text
    assert {row["group"].split(" ")[0] for row in _rows(tmp_path / "groups.csv")} <= {"red", "green", "blue"}
    _, guesses = cacr.predict(run=untrained, data=photos, labels=labels, out=tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text() == out.read_text() and len(guesses.images) == 33
    refused(
        run, ["predict", untrained, photos, "--out", tmp_path / "b.csv"], "has no labels", "--labels FILE.csv"
    )
    (tmp_path / "bad.csv").write_text("file,kind\na,b\n")
    wrong = ["predict", untrained, photos, "--labels", tmp_path / "bad.csv", "--out", tmp_path / "b.csv"]
    refused(run, wrong, "no column for the labels", "'file', 'kind'")


def test_evaluation_takes_labels_from_a_file(untrained: Path, photos: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(untrained, tmp_path / "run"))
    labels = _labels(photos, tmp_path / "labels.csv", each=15)
    values = {"data": str(photos), "protocol": "knn", "baselines": []}
    (result,) = evaluate_run(copy, {**values, "labels": labels})
    assert (
        result.counts["classes"] == 3 and result.counts["train_images"] + result.counts["test_images"] == 45
    )
    (photos / "labels.csv").write_text(labels.read_text())
    (own,) = evaluate_run(copy, values)
    assert own.score == result.score and own.file_name != result.file_name
    assert any("labels are read from" in note for note in own.assumptions)


def test_clusters_need_no_labels(untrained: Path, photos: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(untrained, tmp_path / "run"))
    (result,) = evaluate_run(copy, {"data": str(photos), "protocol": "cluster", "baselines": []})
    assert result.metric == "silhouette" and result.counts["classes"] == 0
    assert result.details["clusters"] >= 2 and -1 <= result.score <= 1


def test_unbalanced_classes_are_told_one_by_one(run: Run, untrained: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(untrained, tmp_path / "run"))
    data = write_images(tmp_path / "data", per_class=20, seed=1)
    for number in range(4, 20):
        (data / "green" / f"{number}.png").unlink()
    (result,) = evaluate_run(copy, {"data": str(data), "protocol": "knn", "baselines": []})
    assert set(result.also) == {"balanced accuracy", "AUC"} and set(result.details["recall"]) == {
        "blue",
        "green",
        "red",
    }
    assert result.also["balanced accuracy"] == pytest.approx(np.mean(list(result.details["recall"].values())))
    code, text = run("evaluate", copy, "--data", data, "--protocol", "knn", "--set", "baselines=[]")
    assert code == 0 and "recall of each class (knn):" in text and "balanced accuracy" in text


def test_doctor_counts_every_file_that_is_not_read(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    first, second, *_ = save_images(folder, 5)
    (folder / "plain").write_bytes(first.read_bytes())
    (folder / "notes").write_text("no image")
    for name in ("a.HEIC", "b.nef", "c.NEF", "film.mp4", ".hidden", "odd.xyz"):
        (folder / name).write_bytes(b"x")
    with Image.open(second) as image:
        image.resize((80, 80), Image.Resampling.NEAREST).save(folder / "twice.png")
    code, text = run("doctor", folder)
    assert code == 0 and "6 images, 6 checked" not in text and "7 images, 7 checked" in text
    for part in (
        "1 .heic: HEIC",
        "2 .nef: raw",
        "1 .mp4: videos",
        "1 hidden:",
        "1 without suffix:",
        "1 .xyz: not a known kind",
    ):
        assert f"not read: {part}" in text, part
    assert f"the same image: {first}, {folder / 'plain'}" in text
    assert f"nearly the same image: {second}, {folder / 'twice.png'}" in text
    assert "7 images are too few to train" in text and "what next? " in text


def test_doctor_says_how_many_copies_it_does_not_list() -> None:
    pairs = tuple((f"{number}.jpg", f"copy of {number}.jpg") for number in range(12))
    found = Inspection("photos", 24, 24, (), {}, None, (), (), near=pairs, unread=(), warnings=())
    lines = [line for line in describe_data(found) if line.startswith("nearly the same image: ")]
    assert len(lines) == 11 and lines[-1] == "nearly the same image: 2 more"


def test_lists_have_kinds_and_the_version_is_told(run: Run) -> None:
    code, text = run("list", "selectors")
    assert code == 0 and "outliers" in text and "objectives" not in text
    refused(run, ["list", "protocol"], "there is no list 'protocol'", "did you mean protocols")
    refused(run, ["list", "quux"], "choose one of: methods, objectives")
    assert run("--version") == (0, f"cacr {cacr.__version__}")
    assert {"select", "predict", "group"} <= {
        command.callback.__name__ for command in app.registered_commands
    }
