"""The commands that use an encoder, as a user types them."""

from pathlib import Path

from tests.conftest import Run, refused


def test_search_lists_and_draws(run: Run, trained: Path, classes: Path, tmp_path: Path) -> None:
    image, out = classes / "train" / "apples" / "image004.png", tmp_path / "found.png"
    code, text = run("search", trained, image, "--data", classes, "--k", 3, "--out", out)
    assert code == 0 and out.exists()
    assert "nearest of 40 images" in text and text.count(str(classes)) == 3 and str(image) not in text
    refused(run, ["search", trained, image, "--data", classes, "--out", out], "exists already")
    refused(run, ["search", trained, tmp_path / "no.png", "--data", classes], "No such file")
    refused(run, ["search", trained, image, "--data", classes, "--part", "tset"], "--part takes pretrain")
    refused(run, ["search", tmp_path, image, "--data", classes], "holds no encoder.safetensors")
