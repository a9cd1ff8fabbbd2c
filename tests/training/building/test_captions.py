"""Training on captions: what is learned, what is resumed, and what is refused."""

import io
import json
import shutil
import tarfile
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch
from rich.console import Console

from cacr.encoders import load_encoder
from cacr.errors import UserError
from cacr.evaluation import evaluate_run
from cacr.reporting.results import results_table
from cacr.training.pretrain import pretrain
from cacr.training.settings.check import check_settings
from tests.conftest import CAPTIONED, TEXT, Run, refused
from tests.encoders.text.making import save_bert
from tests.shapes import NAMES

pytestmark = pytest.mark.trains


def _copy(run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run, tmp_path / "run"))


def test_captions_and_names_of_shapes_are_found_on_images_never_trained_on(
    captioned: Path, shapes: Path, tmp_path: Path
) -> None:
    run = _copy(captioned, tmp_path)
    pairs = {"data": f"pairs:{shapes}/train.jsonl", "protocol": ("captions",), "workers": 0}
    found, start = evaluate_run(run, pairs)
    assert (found.subject, start.subject) == ("encoder", "start")
    console = Console(width=200, file=StringIO())
    console.print(results_table([found, start]))
    told = console.file.getvalue()  # type: ignore[attr-defined]
    assert "first hit (encoder): image to text 1, text to image 1" in told and "by chance: image to" in told
    assert min(found.also["image to text recall@1"], found.also["text to image recall@1"]) >= 0.95
    assert max(start.also["image to text recall@1"], start.also["text to image recall@1"]) <= 0.5
    (tmp_path / "prompts.txt").write_text("a {}\nthis is a {}\n")
    values = {"data": str(shapes / "sorted"), "protocol": ("zeroshot",), "workers": 0, "baselines": ()}
    (guessed,) = evaluate_run(run, {**values, "prompts": str(tmp_path / "prompts.txt")})
    assert guessed.score >= 0.95 and guessed.counts["classes"] == len(NAMES)
    assert set(guessed.details["per_class"]) == set(NAMES)


def test_words_find_images_and_classes(captioned: Path, shapes: Path, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "found.png"
    code, text = run("search", captioned, "a green ring", "--data", shapes / "test", "--k", 3, "--out", out)
    assert code == 0 and out.exists()
    green_rings = [f"{number:04d}.png" for number in range(36) if NAMES[number % 12] == "green ring"]
    assert sum(name in text for name in green_rings) >= 2
    sentence = "a green ring, " + "green and round as rings are, " * 20  # longer than a file's name can be
    assert "from the cache" not in text
    code, text = run("search", captioned, sentence, "--data", shapes / "test", "--k", 3)
    assert code == 0 and "more than 8 tokens" in text, text
    assert "note: features of 36 images from the cache" in text
    code, text = run("search", captioned, "a disc", "--data", shapes / "test", "--no-cache")
    assert code == 0 and "from the cache" not in text
    guesses = tmp_path / "guesses.csv"
    code, text = run(
        *("predict", captioned, shapes / "test", "--out", guesses),
        *("--classes", ",".join(NAMES)),
    )
    assert code == 0 and "features of 36 images from the cache" in text, text
    rows = [line.split(",") for line in guesses.read_text().splitlines()[1:]]
    right = [row[1] == NAMES[int(Path(row[0]).stem) % 12] for row in rows]
    assert len(rows) == 36 and sum(right) >= 32
    confidences = [float(row[2]) for row in rows]
    assert confidences == sorted(confidences)


def _files(run: Path) -> dict[str, bytes]:
    names = ("encoder.safetensors", "text/heads.safetensors", "text/tower/model.safetensors")
    return {name: (run / name).read_bytes() for name in names if (run / name).exists()}


CASES: dict[str, dict[str, Any]] = {
    "clip": {"method": "clip", **TEXT},
    "cacr, all captions, learned t-": {
        **{"method": "cacr_text", "captions": "all", "views": 2, "t_neg_schedule": "learned"},
        **TEXT,
    },
    "text encoder of a folder, both sides frozen": {
        **{"method": "cacr_text", "text_encoder": "bert", "image_trained": False, "views": 2},
    },
    "text encoder of a folder, trained": {"method": "clip", "text_encoder": "bert", "text_trained": True},
}


@pytest.mark.parametrize("case", CASES)
def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(
    case: str, shapes: Path, captioned: Path, tmp_path: Path
) -> None:
    values = {"data": f"pairs:{shapes}/test.jsonl", "max_steps": 5, "epochs": 2, **CAPTIONED, **CASES[case]}
    values["schedule"] = "constant"  # that of two steps is then the beginning of that of five
    if "text_encoder" in values:
        save_bert(tmp_path / "bert")
        values["text_encoder"] = str(tmp_path / "bert")
    if values.get("image_trained") is False:
        values["init"] = str(captioned)
    pretrain(values, tmp_path / "whole")
    pretrain({**values, "max_steps": 2}, tmp_path / "parts")
    shutil.rmtree(tmp_path / "bert", ignore_errors=True)  # the tower travels with the run
    pretrain({"max_steps": 5}, tmp_path / "parts", resume=True)
    whole, parts = (_files(tmp_path / name) for name in ("whole", "parts"))
    assert len(whole) == 2 + ("text_encoder" in values)
    assert whole == parts
    rows = [json.loads(line) for line in (tmp_path / "parts" / "metrics.jsonl").read_text().splitlines()]
    assert "scale" in rows[-1] if values["method"] == "clip" else "attraction" in rows[-1]
    if values.get("t_neg_schedule"):
        assert rows[-1]["t_neg"] < 2.0


def test_a_frozen_side_stays_as_it_was(shapes: Path, captioned: Path, tmp_path: Path) -> None:
    save_bert(tmp_path / "bert")
    values = {"data": f"pairs:{shapes}/test.jsonl", "epochs": 2, **CAPTIONED, "method": "clip"}
    frozen = {"text_encoder": str(tmp_path / "bert"), "image_trained": False, "init": str(captioned)}
    pretrain({**values, **frozen}, tmp_path / "run")
    before, after = load_encoder(captioned), load_encoder(tmp_path / "run")
    for name, tensor in before.backbone.state_dict().items():
        assert torch.equal(tensor, after.backbone.state_dict()[name])
    heads = [load_encoder(tmp_path / "run" / part).text.head.weight for part in ("start", ".")]
    assert not torch.equal(*heads)
    checkpoint = next((tmp_path / "run" / "checkpoints").iterdir())
    state = torch.load(checkpoint, weights_only=True)["method"]
    assert not any(name.startswith("text_tower") for name in state)


def _shard(place: Path, shapes: Path, *, without: Mapping[int, bytes | None] = MappingProxyType({})) -> None:
    """A shard as img2dataset writes it; some images have another text, or none."""
    lines = [json.loads(line) for line in (shapes / "test.jsonl").read_text().splitlines()]
    with tarfile.open(place, "w") as shard:
        for number, line in enumerate(lines):
            contents = {".png": (shapes / line["image"]).read_bytes(), ".json": b"{}"}
            contents[".txt"] = without.get(number, line["captions"][0].encode())
            for suffix, content in contents.items():
                if content is not None:
                    entry = tarfile.TarInfo(f"{number:08d}{suffix}")
                    entry.size = len(content)
                    shard.addfile(entry, io.BytesIO(content))


def test_shards_as_img2dataset_writes_them_are_trained_on(shapes: Path, tmp_path: Path) -> None:
    _shard(tmp_path / "00000.tar", shapes)
    values = {"data": f"wds:{tmp_path}/00000.tar", "method": "clip", "epochs": 1, **CAPTIONED, **TEXT}
    assert pretrain(values, tmp_path / "run").status == "finished"
    assert load_encoder(tmp_path / "run").text.of_texts(["a red disc"]).shape == (1, 32)


def test_images_of_shards_without_captions_are_left_out_and_listed(shapes: Path, tmp_path: Path) -> None:
    """They are found only when they are read, hours into a run that they must not end."""
    _shard(tmp_path / "00000.tar", shapes, without={0: None, 7: b" \n"})
    values = {"data": f"wds:{tmp_path}/00000.tar", "method": "clip", "epochs": 2, **CAPTIONED, **TEXT}
    assert pretrain(values, tmp_path / "run").status == "finished"
    listed = (tmp_path / "run" / "unreadable.txt").read_text().splitlines()
    assert [line.split(", ")[-1] for line in sorted(listed)] == [
        "00000000.png: it has no caption",
        "00000007.png: it has no caption",
    ]
    _shard(tmp_path / "bare.tar", shapes, without=dict.fromkeys(range(0, 36, 2), b""))
    with pytest.raises(UserError, match=r"images cannot be read(.|\n)*it has no caption"):
        pretrain({**values, "data": f"wds:{tmp_path}/bare.tar"}, tmp_path / "bare")


def test_captions_in_shards_are_measured_as_those_in_a_list(
    captioned: Path, shapes: Path, run: Run, tmp_path: Path
) -> None:
    copy = _copy(captioned, tmp_path)
    _shard(tmp_path / "whole.tar", shapes)
    values = {"protocol": ("captions",), "workers": 0, "baselines": ()}
    (streamed,) = evaluate_run(copy, {**values, "data": f"wds:{tmp_path}/whole.tar"})
    lines = [json.loads(line) for line in (shapes / "test.jsonl").read_text().splitlines()]
    first = _write(tmp_path / "first", [{**line, "captions": line["captions"][:1]} for line in lines], shapes)
    (listed,) = evaluate_run(copy, {**values, "data": f"pairs:{first}"})
    assert (streamed.score, streamed.also) == (listed.score, listed.also)
    assert streamed.details["captions"] == len(lines) and streamed.details["weights"][0]["most"]
    _shard(tmp_path / "few.tar", shapes, without={0: None, 7: b" \n"})
    (found,) = evaluate_run(copy, {**values, "data": f"wds:{tmp_path}/few.tar"})
    assert found.details["images"] == len(lines) - 2 and found.counts["unreadable"] == 2
    _shard(tmp_path / "bare.tar", shapes, without=dict.fromkeys(range(len(lines))))
    evaluate = ["evaluate", copy, "--protocol", "captions", "--data"]
    refused(run, [*evaluate, f"wds:{tmp_path}/bare.tar"], "has no captions (images only)")
    refused(run, [*evaluate, shapes / "sorted"], "has no captions (labels)", "the protocol zeroshot")
    empty = _write(tmp_path / "empty", [{**lines[0], "captions": ["", " "]}, *lines[1:]], shapes)
    refused(run, [*evaluate, f"pairs:{empty}"], "test/0000.png of pairs:", "has no caption: give each image")


@pytest.mark.parametrize("column", ["caption", "captions"])
def test_hugging_face_data_is_trained_on_and_measured(
    column: str, run: Run, shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()
    kind = datasets.Value("string")
    features = {"image": datasets.Image(), column: kind if column == "caption" else datasets.List(kind)}
    (tmp_path / "set").mkdir()
    for part, file in (("train", "train"), ("validation", "test")):
        lines = [json.loads(line) for line in (shapes / f"{file}.jsonl").read_text().splitlines()][:36]
        told = [line["captions"] for line in lines]
        columns = {
            "image": [str(shapes / line["image"]) for line in lines],
            column: told if column == "captions" else [each[0] for each in told],
        }
        table = datasets.Dataset.from_dict(columns, features=datasets.Features(features))
        table.to_parquet(tmp_path / "set" / f"{part}.parquet")
    data, out = f"hf:{tmp_path}/set", tmp_path / "run"
    code, text = run("pretrain", data, "--method", "clip", "--epochs", 2, "--out", out, *_sets())
    assert code == 0, text
    assert load_encoder(out).text.of_texts(["a red disc"]).shape == (1, 32)
    found = evaluate_run(out, {"data": data, "protocol": ("captions",), "workers": 0})[0]
    assert found.details["images"] == 36 and "test part" in found.split
    assert found.details["captions"] == (72 if column == "captions" else 36)


def _sets() -> list[str]:
    """The small settings as arguments of a command."""
    small = [f"{name}={value}" for name, value in {**CAPTIONED, **TEXT}.items() if name != "scale"]
    return [part for text in small for part in ("--set", text)]


def _write(folder: Path, lines: list[dict[str, Any]], images: Path) -> Path:
    folder.mkdir()
    (folder / "test").symlink_to(images / "test")
    (folder / "pairs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder / "pairs.jsonl"


def test_bad_captions_are_refused_in_one_message(
    run: Run, shapes: Path, classes: Path, tmp_path: Path
) -> None:
    lines = [json.loads(line) for line in (shapes / "test.jsonl").read_text().splitlines()]
    out = tmp_path / "out"
    common = ("--method", "clip", "--out", out, "--epochs", 1)
    refused(run, ["pretrain", classes, *common], "has no captions (classes only)", "pairs:FILE.jsonl")
    empty = _write(tmp_path / "a", [{**line, "captions": [" "]} for line in lines[:2]] + lines[2:], shapes)
    refused(run, ["pretrain", f"pairs:{empty}", *common], "test/0000.png and 1 others", "have no caption")
    refused(
        run,
        ["pretrain", f"pairs:{shapes}/train.jsonl", *common, "--text-encoder", tmp_path / "none"],
        "there is no folder",
    )
    refused(
        run,
        [
            "pretrain",
            f"pairs:{shapes}/train.jsonl",
            "--out",
            out,
            "--set",
            "objective=clip",
            "--set",
            "method=none",
        ],
        "it compares images with captions: use framework image_text",
    )
    assert not out.exists()


def test_what_is_odd_about_captions_is_told(run: Run, shapes: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (shapes / "test.jsonl").read_text().splitlines()]
    lines[0]["captions"] = ["a " * 20, ""]
    file = _write(tmp_path / "odd", lines, shapes)
    code, text = run(
        "pretrain", f"pairs:{file}", "--method", "clip", "--epochs", 1, "--out", tmp_path / "run", *_sets()
    )
    assert code == 0, text
    assert "1 empty captions" in text and "more than 8 tokens" in text
    code, text = run("pretrain", f"pairs:{file}", "--epochs", 1, "--out", tmp_path / "images", "--dry-run")
    assert code == 0


def test_settings_of_one_tower_mean_nothing_in_another() -> None:
    with pytest.raises(UserError, match="belongs to framework image_text"):
        check_settings({"data": "a", "text_width": 64})
    with pytest.raises(UserError, match="views must be greater than or equal to 2"):
        check_settings({"data": "a", "views": 1})
    assert check_settings({"data": "a", "method": "clip", "framework": "image_text", "objective": "clip"})


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("captions", 0, "greater than or equal to 1"),
        ("captions", 17, "less than or equal to 16"),
        ("captions", "many", "integer"),
        ("text_width", 4, "greater than or equal to 8"),
        ("text_layers", 0, "greater than or equal to 1"),
        ("text_context", 2, "greater than or equal to 4"),
    ],
)
def test_settings_of_the_text_side_have_bounds(name: str, value: object, told: str) -> None:
    with pytest.raises(UserError, match=f"{name} must be .*{told}"):
        check_settings({"data": "a", "framework": "image_text", "objective": "clip", name: value})
