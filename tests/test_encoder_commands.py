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


def test_export_prints_how_to_load_the_file(run: Run, trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "encoder.safetensors"
    code, text = run("export", trained, "--to", "torch", "--out", out)
    assert code == 0 and 'load_file("encoder.safetensors")' in text and str(out.with_suffix(".md")) in text
    refused(run, ["export", trained, "--to", "torch", "--out", out], "exists already")
    refused(run, ["export", trained, "--to", "timm", "--out", tmp_path / "b.safetensors"], "use --to torch")
    refused(run, ["export", trained, "--to", "onxx", "--out", tmp_path / "b.onnx"], "did you mean onnx")
    missing = ["export", tmp_path / "no", "--to", "torch", "--out", tmp_path / "b.safetensors"]
    refused(run, missing, "there is no run folder")
