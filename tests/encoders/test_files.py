import json
import os
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from torchvision import transforms

from cacr.config import FORMAT
from cacr.encoders import Encoder, build_encoder, load_encoder, load_weights, save_encoder
from cacr.errors import UserError


def make(size: int = 16, width: float = 0.05, seed: int = 0) -> Encoder:
    torch.manual_seed(seed)
    encoder = build_encoder("small_alexnet", image_size=size, width=width)
    encoder(torch.randn(4, 3, size, size))  # running statistics that are not those of the start
    encoder.info = replace(
        encoder.info, mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3), preset="cifar", training={"steps": 7}
    )
    return encoder


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    encoder = make()
    save_encoder(tmp_path / "run", encoder, encoder.info)
    for path in (tmp_path / "run", str(tmp_path / "run" / "encoder.safetensors")):
        loaded = load_encoder(path)
        assert loaded.info == encoder.info
        assert not loaded.training
        images = torch.randn(3, 3, 16, 16)
        assert torch.equal(loaded(images), encoder.eval()(images))
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == ["encoder.json", "encoder.safetensors"]
    assert json.loads((tmp_path / "run" / "encoder.json").read_text())["format"] == FORMAT


def test_timm_loads_the_file_of_a_timm_encoder(tmp_path: Path) -> None:
    encoder = build_encoder("mobilenetv3_small_050", image_size=32)
    save_encoder(tmp_path, encoder, encoder.info)
    model = timm.create_model(
        "mobilenetv3_small_050", num_classes=0, checkpoint_path=str(tmp_path / "encoder.safetensors")
    )
    images = torch.randn(2, 3, 32, 32)
    assert torch.equal(model.eval()(images), encoder.eval()(images))


def test_a_failed_write_leaves_the_old_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = make()
    save_encoder(tmp_path, encoder, encoder.info)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left"):
        save_encoder(tmp_path, make(seed=1), encoder.info)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_cleaning_up_does_not_hide_why_a_write_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    def gone(path: Path, missing_ok: bool = False) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(Path, "unlink", gone)
    with pytest.raises(UserError, match="No space left"):
        save_encoder(tmp_path, make(), make().info)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    encoder = make()
    save_encoder(tmp_path, encoder, replace(encoder.info, format=FORMAT + 1))
    with pytest.raises(UserError, match=f"has format {FORMAT + 1}.*upgrade cacr"):
        load_encoder(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"encoder": "small_alexnet"}'])
def test_a_damaged_description_is_reported(tmp_path: Path, text: str) -> None:
    save_encoder(tmp_path, make(), make().info)
    (tmp_path / "encoder.json").write_text(text)
    with pytest.raises(UserError, match=r"encoder\.json .* damaged"):
        load_encoder(tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("encoder", 5),
        ("image_size", "32"),
        ("image_size", 0),
        ("image_size", True),
        ("feature_dim", 3),
        ("feature_dim", None),
        ("width", "1"),
        ("width", float("nan")),
        ("resize", [3]),
        ("resize", -1),
        ("mean", [1]),
        ("mean", 0.5),
        ("mean", ["a", "b", "c"]),
        ("std", [0, 1, 1]),
        ("preset", 1),
        ("training", []),
    ],
)
def test_a_wrong_value_in_the_description_is_named(tmp_path: Path, name: str, value: object) -> None:
    save_encoder(tmp_path, make(), make().info)
    path = tmp_path / "encoder.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    with pytest.raises(UserError, match=rf"encoder\.json is damaged: {name}"):
        load_encoder(tmp_path)


def test_what_a_later_version_adds_is_passed_over(tmp_path: Path) -> None:
    save_encoder(tmp_path, make(), make().info)
    path = tmp_path / "encoder.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "colour": "blue", "width": 0.05}))
    assert load_encoder(tmp_path).info == make().info


def test_missing_and_damaged_weights_are_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run folder or weights file"):
        load_encoder(tmp_path / "nothing")
    with pytest.raises(UserError, match=r"has no encoder\.safetensors"):
        load_encoder(tmp_path)
    save_encoder(tmp_path, make(), replace(make().info, width=0.1))
    with pytest.raises(
        UserError, match=r"does not fit .* \(small_alexnet\): \d+ tensors are of another shape, such as"
    ):
        load_encoder(tmp_path)
    other = build_encoder("resnet18", image_size=32)
    save_encoder(tmp_path, other, make().info)
    counts = [len(encoder.backbone.state_dict()) for encoder in (make(), other)]
    with pytest.raises(UserError) as caught:
        load_encoder(tmp_path)
    assert f"{counts[0]} tensors are missing, such as " in str(caught.value)
    assert f"{counts[1]} tensors are unknown, such as " in str(caught.value)
    (tmp_path / "encoder.safetensors").write_bytes(b"1234567")
    with pytest.raises(UserError, match="not a readable safetensors file"):
        load_encoder(tmp_path)


def test_every_kind_of_image_is_preprocessed_alike(tmp_path: Path) -> None:
    encoder = make()
    array = np.random.default_rng(0).integers(0, 256, (16, 24, 3), dtype=np.uint8)
    Image.fromarray(array).save(tmp_path / "image.png")
    # No resizing is needed, so the result is known exactly: the centred square, normalised.
    square = torch.from_numpy(array[:, 4:20].copy()).permute(2, 0, 1) / 255
    expected = (square - torch.tensor(encoder.info.mean).view(3, 1, 1)) / torch.tensor(encoder.info.std).view(
        3, 1, 1
    )
    tensor = torch.from_numpy(array).permute(2, 0, 1)
    for image in (array, tensor, Image.fromarray(array), tmp_path / "image.png", str(tmp_path / "image.png")):
        torch.testing.assert_close(encoder.preprocess(image), expected)
    assert encoder.preprocess(array[:, :, 0]).shape == (3, 16, 16)


@pytest.mark.parametrize(("height", "width"), [(40, 61), (90, 37), (16, 16), (12, 20)])
def test_preprocessing_is_resize_and_centre_crop_of_torchvision(height: int, width: int) -> None:
    encoder = make()
    encoder.info = replace(encoder.info, resize=19)
    array = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    expected = transforms.Compose(
        [
            transforms.Resize(19),
            transforms.CenterCrop(16),
            transforms.ToTensor(),
            transforms.Normalize(encoder.info.mean, encoder.info.std),
        ]
    )(Image.fromarray(array))
    torch.testing.assert_close(encoder.preprocess(array), expected)


def test_a_wrong_image_is_reported(tmp_path: Path) -> None:
    encoder = make()
    (tmp_path / "broken.png").write_bytes(b"no image")
    with pytest.raises(UserError, match=r"broken\.png: not an image"):
        encoder.preprocess(tmp_path / "broken.png")
    with pytest.raises(UserError, match="must be uint8"):
        encoder.preprocess(np.zeros((4, 4, 3)))
    (tmp_path / "two\nlines.png").write_bytes(b"no image")
    with pytest.raises(UserError, match=r"two\\nlines\.png: not an image"):
        encoder.preprocess(tmp_path / "two\nlines.png")


@pytest.mark.parametrize("kind", ["run", "safetensors", "pt", "nested"])
def test_weights_come_from_elsewhere(tmp_path: Path, kind: str) -> None:
    source, target = make(seed=1), make(seed=2)
    save_encoder(tmp_path, source, source.info)
    path = tmp_path
    state = source.backbone.state_dict()
    if kind == "safetensors":
        path = tmp_path / "encoder.safetensors"
    elif kind == "pt":
        path = tmp_path / "weights.pt"
        torch.save(state, path)
    elif kind == "nested":
        path = tmp_path / "checkpoint.pth"
        state = {f"module.backbone.{name}": tensor for name, tensor in state.items()}
        torch.save({"epoch": 3, "state_dict": state | {"module.head.weight": torch.zeros(2)}}, path)
    report = load_weights(target, path)
    torch.testing.assert_close(target.state_dict(), source.state_dict())
    assert set(report.loaded) == set(source.backbone.state_dict())
    assert report.missing == ()
    assert report.unexpected == (("state_dict.module.head.weight",) if kind == "nested" else ())


def test_what_does_not_fit_is_left_and_named(tmp_path: Path) -> None:
    source, target = make(seed=1), make(seed=2)
    state = source.backbone.state_dict()
    state["conv1.0.weight"] = torch.zeros(1)
    del state["conv2.1.bias"]
    torch.save(state, tmp_path / "weights.pt")
    first = target.backbone.state_dict()["conv1.0.weight"].clone()
    report = load_weights(target, tmp_path / "weights.pt")
    assert report.missing == ("conv1.0.weight", "conv2.1.bias")
    assert report.unexpected == ("conv1.0.weight",)
    assert torch.equal(target.backbone.state_dict()["conv1.0.weight"], first)


def test_weights_of_another_encoder_are_refused_and_nothing_changes(tmp_path: Path) -> None:
    target = make()
    before = {name: tensor.clone() for name, tensor in target.state_dict().items()}
    other = make(width=0.1)
    save_encoder(tmp_path, other, other.info)
    with pytest.raises(UserError, match="only 0% of the weights of small_alexnet"):
        load_weights(target, tmp_path)
    torch.testing.assert_close(target.state_dict(), before)


def test_unsafe_and_damaged_files_are_refused(tmp_path: Path) -> None:
    torch.save({"state_dict": {}, "code": Fraction(1)}, tmp_path / "unsafe.pt")
    with pytest.raises(UserError, match="not read, for safety"):
        load_weights(make(), tmp_path / "unsafe.pt")
    (tmp_path / "damaged.pt").write_bytes(b"PK\x03\x04 and nothing")
    with pytest.raises(UserError, match="not a readable weights file"):
        load_weights(make(), tmp_path / "damaged.pt")
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(UserError, match="has no named weights"):
        load_weights(make(), tmp_path / "list.pt")
