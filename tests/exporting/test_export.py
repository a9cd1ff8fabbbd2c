"""Exported encoders give the features of the original, loaded by the lines that are printed for it."""

import json
import logging
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import timm
import torch
import yaml
from PIL import Image
from timm.data import resolve_model_data_config

import cacr
from cacr.encoders import ReaderKind, build_encoder, load_encoder, save_encoder
from cacr.encoders.reader_file import READER, save_reader
from cacr.errors import UserError
from cacr.evaluation import write_result
from cacr.exporting import FORMATS, export_run
from cacr.exporting.card import comparison, preparation
from cacr.features.reader import fit_reader

pytestmark = pytest.mark.trains


def _save(folder: Path, name: str, size: int, width: float = 1.0) -> Path:
    """A run folder with an encoder whose batch-norm statistics are not those of the beginning."""
    torch.manual_seed(0)
    encoder = build_encoder(name, image_size=size, width=width)
    for tensor_name, tensor in encoder.state_dict().items():
        if tensor_name.endswith("running_mean"):
            tensor.copy_(0.02 * torch.randn_like(tensor))  # more would let no feature pass the last ReLU
        if tensor_name.endswith("running_var"):
            tensor.copy_(torch.rand_like(tensor) + 0.5)
    info = replace(encoder.info, resize=size + 4, mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3), preset="cifar")
    save_encoder(folder, encoder, info)
    return folder


def _images(size: int, count: int = 3) -> torch.Tensor:
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(1))


def _loaded(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch):
    """The ``encoder`` that the printed lines make, run where the file lies."""
    monkeypatch.chdir(folder)
    names: dict[str, object] = {}
    exec(compile(code, "printed", "exec"), names)
    return names["encoder"]


def _same(original: torch.Tensor, copy: torch.Tensor) -> None:
    assert original.abs().max() > 0  # zeros would be equal whatever the file holds
    torch.testing.assert_close(copy, original, rtol=0, atol=1e-5 * original.abs().max().item())


@pytest.mark.parametrize(
    ("name", "size", "width"),
    [
        ("small_alexnet", 16, 0.05),
        ("resnet18", 32, 1.0),
        ("vit_tiny_patch16_224", 32, 1.0),
        ("mobilenetv3_small_050", 64, 1.0),
    ],
)
def test_the_lines_for_torch_give_the_same_features(
    name: str, size: int, width: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _save(tmp_path / "run", name, size, width)
    done = export_run(run, "torch", tmp_path / "new" / "a 'b' \"c\".safetensors")
    statements = [line for line in done.code.splitlines() if line and not line.startswith(("import", "from"))]
    assert len(statements) <= 5 or name == "small_alexnet"
    encoder = _loaded(done.code, done.file.parent, monkeypatch)
    with torch.inference_mode():
        _same(load_encoder(run)(_images(size)), encoder(_images(size)))
        _same(load_encoder(run)(_images(size)), load_encoder(done.file)(_images(size)))
    assert done.difference <= 1e-5
    assert "cacr" not in done.code
    assert ("timm" in done.code) == (name != "small_alexnet")  # which needs PyTorch alone


@pytest.mark.parametrize(
    ("name", "size"), [("vit_tiny_patch16_224", 32), ("mobilenetv3_small_050", 64), ("resnet18", 65)]
)
def test_timm_loads_its_file_with_no_tensor_left_over(
    name: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, out = _save(tmp_path / "run", name, size), tmp_path / "encoder.safetensors"
    done = cacr.export(run=run, to="timm", out=out)
    model = _loaded(done.code, tmp_path, monkeypatch)
    with torch.inference_mode():
        _same(load_encoder(run)(_images(size)), model(_images(size)))
    sizes = {"img_size": size} if name.startswith("vit") else {}
    plain = timm.create_model(name, num_classes=0, checkpoint_path=str(out), **sizes).eval()
    with torch.inference_mode():
        _same(load_encoder(run)(_images(size)), plain(_images(size)))


@pytest.mark.parametrize(("name", "size"), [("vit_tiny_patch16_224", 32), ("mobilenetv3_small_050", 64)])
def test_a_folder_for_a_hub_is_loaded_by_timm_from_itself_alone(
    name: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _save(tmp_path / "run", name, size)
    original = load_encoder(run)
    save_reader(run / READER, fit_reader(torch.randn(80, original.feature_dim)), original)
    done = cacr.export(run=run, to="hub", out=tmp_path / "upload" / "photos")
    folder = shutil.move(tmp_path / "upload" / "photos", tmp_path / "photos")
    monkeypatch.chdir(tmp_path)
    model = _loaded(done.code, tmp_path, monkeypatch)
    with torch.inference_mode():
        _same(original(_images(size)), model(_images(size)))
    config = resolve_model_data_config(model)
    assert (tuple(config["mean"]), tuple(config["std"])) == (original.info.mean, original.info.std)
    assert tuple(config["input_size"]) == (3, size, size) and config["interpolation"] == "bilinear"
    assert math.floor(size / config["crop_pct"]) == size + 4
    names = ["README.md", "config.json", "model.json", "model.reader.safetensors", "model.safetensors"]
    assert sorted(path.name for path in Path(folder).iterdir()) == names
    card = (Path(folder) / "README.md").read_text()
    header = yaml.safe_load(card.split("---")[1])
    assert header["library_name"] == "timm" and header["license"] == "other"
    assert "training images" in card and "to be filled in" in card
    again = load_encoder(folder)  # by us, with its description and its reader
    saved = load_encoder(run).reader
    assert again.info == original.info and again.reader is not None and saved is not None
    assert again.reader.kind == saved.kind
    features = torch.randn(5, original.feature_dim)
    torch.testing.assert_close(again.reader(features), saved(features))
    with pytest.raises(UserError, match="exists already"):
        export_run(run, "hub", Path(folder))


def test_a_hub_takes_what_timm_builds_only(tmp_path: Path) -> None:
    run = _save(tmp_path / "run", "small_alexnet", 16, 0.05)
    with pytest.raises(UserError, match="use --to torch"):
        export_run(run, "hub", tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_weights_of_others_are_exported_too(tmp_path: Path) -> None:
    model = timm.create_model("mobilenetv3_small_050")
    torch.save(model.state_dict(), tmp_path / "theirs.pth")
    done = export_run(f"timm:mobilenetv3_small_050@{tmp_path / 'theirs.pth'}", "hub", tmp_path / "ours")
    assert "2 unused (classifier.weight, classifier.bias)" in done.notes[0]
    assert "which did not train it" in done.card.read_text()
    images = torch.randn(2, 3, 64, 64)
    model.reset_classifier(0)
    torch.testing.assert_close(load_encoder(tmp_path / "ours")(images), model.eval()(images))


@pytest.mark.parametrize(
    ("name", "size", "why"),
    [
        ("small_alexnet", 16, "not one of timm's models"),
        ("resnet18", 64, "3x3 stem, which timm's resnet18 lacks"),
    ],
)
def test_what_timm_cannot_build_is_refused_with_a_way_out(
    name: str, size: int, why: str, tmp_path: Path
) -> None:
    run = _save(tmp_path / "run", name, size, 0.05 if name == "small_alexnet" else 1.0)
    with pytest.raises(UserError, match=f"{why}; use --to torch"):
        export_run(run, "timm", tmp_path / "a.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_onnx_runtime_gives_the_same_features_for_any_number_of_images(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = export_run(trained, "onnx", tmp_path / "encoder.onnx")
    original = load_encoder(trained)
    encoder = _loaded(done.code, tmp_path, monkeypatch)
    for count in (1, 3, 8):
        images = _images(32, count)
        with torch.inference_mode():
            _same(original(images), torch.from_numpy(encoder(images.numpy())))
    (taken,) = onnxruntime.InferenceSession(str(done.file)).get_inputs()
    assert taken.name == "images" and taken.shape[1:] == [3, 32, 32]
    stored = {item.key: item.value for item in onnx.load(str(done.file)).metadata_props}
    assert json.loads(stored["cacr.mean"]) == list(original.info.mean)
    assert json.loads(stored["cacr.image_size"]) == 32
    assert logging.getLogger("torch.onnx").level == logging.NOTSET


def test_a_file_whose_features_differ_is_never_left(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(self: object, info: object, path: Path):
        wrong = load_encoder(trained)
        with torch.no_grad():
            next(wrong.parameters()).mul_(1.001)
        return wrong

    monkeypatch.setattr(FORMATS["torch"], "read", other)
    with pytest.raises(UserError, match="nothing was written: in torch the features differ by"):
        export_run(trained, "torch", tmp_path / "a.safetensors")

    def nothing(self: object, info: object, path: Path):
        return lambda images: torch.full((len(images), 1), torch.nan)

    monkeypatch.setattr(FORMATS["torch"], "read", nothing)
    with pytest.raises(UserError, match="nothing was written"):
        export_run(trained, "torch", tmp_path / "a.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten_and_wrong_names_are_told(trained: Path, tmp_path: Path) -> None:
    for name in ("a.safetensors", "a.json", "a.md"):
        (tmp_path / name).write_text("precious")
        with pytest.raises(UserError, match=f"{name} exists already"):
            export_run(trained, "torch", tmp_path / "a.safetensors")
        (tmp_path / name).unlink()
    with pytest.raises(UserError, match=r"must end in \.onnx"):
        export_run(trained, "onnx", tmp_path / "a.safetensors")
    with pytest.raises(UserError, match="no export format 'tim'; did you mean timm"):
        export_run(trained, "tim", tmp_path / "a.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_one_name_serves_two_formats_each_with_its_own_description_and_card(
    trained: Path, tmp_path: Path
) -> None:
    first = export_run(trained, "torch", tmp_path / "photos.safetensors")
    content = {path: path.read_bytes() for path in (first.file, first.info, first.card)}
    second = export_run(trained, "onnx", tmp_path / "photos.onnx")
    assert {path: path.read_bytes() for path in content} == content
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "photos.json",
        "photos.md",
        "photos.onnx",
        "photos.onnx.json",
        "photos.onnx.md",
        "photos.safetensors",
    ]
    assert json.loads(first.info.read_text()) == json.loads(second.info.read_text())
    for done, other in ((first, second), (second, first)):
        assert done.code in done.card.read_text() and other.code not in done.card.read_text()
    _same(load_encoder(trained)(_images(32)), load_encoder(first.file)(_images(32)))
    with pytest.raises(UserError, match=r"photos\.onnx exists already"):
        export_run(trained, "onnx", tmp_path / "photos.onnx")
    second.file.unlink()
    with pytest.raises(UserError, match=r"photos\.onnx\.json exists already"):
        export_run(trained, "onnx", tmp_path / "photos.onnx")


@pytest.mark.parametrize(
    ("to", "name", "kind"), [("torch", "a.safetensors", "white"), ("onnx", "a.onnx", "centred")]
)
def test_the_reader_goes_along_and_the_card_says_how_to_use_it(
    to: str, name: str, kind: ReaderKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _save(tmp_path / "run", "small_alexnet", 16, 0.05)
    encoder = load_encoder(run)
    with torch.inference_mode():
        features = encoder(_images(16, 80))
    reader = fit_reader(features, kind, 8)
    save_reader(run / READER, reader, encoder)
    done = export_run(run, to, tmp_path / "new" / name)
    assert done.reader == tmp_path / "new" / f"{name.removesuffix('.safetensors')}.reader.safetensors"
    lines = comparison(reader, done.reader.name)
    assert lines in done.card.read_text()
    monkeypatch.chdir(done.reader.parent)
    names: dict[str, object] = {"features": features.numpy()}
    exec(compile(lines, "card", "exec"), names)
    read = torch.nn.functional.normalize(reader(features), dim=1)
    np.testing.assert_allclose(names["cosines"], read @ read.T, atol=1e-4)
    if to == "torch":
        copied = load_encoder(done.file).reader
        assert copied is not None and torch.equal(copied(features), reader(features))
        done.file.unlink(), done.info.unlink(), done.card.unlink()
        with pytest.raises(UserError, match=r"a\.reader\.safetensors exists already"):
            export_run(run, to, done.file)


def test_the_card_tells_what_is_known_and_no_paths(trained: Path, classes: Path, tmp_path: Path) -> None:
    copied = tmp_path / "run"
    copied.mkdir()
    for name in ("config.yaml", "encoder.safetensors", "encoder.json"):
        (copied / name).write_bytes((trained / name).read_bytes())
    unmeasured = export_run(copied, "torch", tmp_path / "first.safetensors")
    assert "Not evaluated." in unmeasured.card.read_text()
    (result,) = cacr.evaluate(run=copied, data=classes, protocol="knn", k=3, baselines=())
    write_result(
        copied / "evaluation", replace(result, notes=[*result.notes, f"3 files in {classes}/train are odd"])
    )
    done = export_run(copied, "torch", tmp_path / "my_encoder.safetensors")
    card = done.card.read_text()
    for fact in (
        "my\\_encoder",
        done.code,
        f"| data | {classes.name} |",
        "| images | 40 |",
        "| objective | cacr |",
        "| preset | cifar |",
        "| passes over the images | 2 |",
        f"\n\n3 files in {classes.name}/train are odd.\n",
        "weight_decay = 0.0001",
        "k=3",
        f"| this encoder | all | accuracy | {result.text} | the test part of {classes.name} |",
        "license: other",
        "to be filled in",
    ):
        assert fact in card, fact
    assert "| epochs |" not in card and "used as classes" not in card
    for text in (card, done.info.read_text()):
        assert str(classes.parent) not in text and str(tmp_path) not in text


def test_the_card_prepares_images_as_the_encoder_does(tmp_path: Path) -> None:
    run = _save(tmp_path / "run", "small_alexnet", 16, 0.05)
    encoder = load_encoder(run)
    names: dict[str, object] = {}
    exec(compile(preparation(encoder.info), "card", "exec"), names)
    pixels = np.random.default_rng(0).integers(0, 256, (31, 44, 3)).astype(np.uint8)
    image = Image.fromarray(pixels)
    torch.testing.assert_close(names["prepare"](image), encoder.preprocess(image), rtol=0, atol=1e-6)


def test_odd_names_stay_text_in_the_card(trained: Path, tmp_path: Path) -> None:
    copied = tmp_path / "run"
    copied.mkdir()
    (copied / "encoder.safetensors").write_bytes((trained / "encoder.safetensors").read_bytes())
    info = json.loads((trained / "encoder.json").read_text())
    info["training"] |= {"data": "a|b <script>\n# x", "finished": False}
    (copied / "encoder.json").write_text(json.dumps(info))
    done = export_run(copied, "torch", tmp_path / "a.safetensors")
    card = done.card.read_text()
    assert "| data | a\\|b &lt;script>\\\\n# x |" in card
    assert not done.finished and "was not finished" in card
    assert not re.search(r"^# x", card, re.MULTILINE)
