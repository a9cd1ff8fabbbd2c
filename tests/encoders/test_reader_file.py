"""The file of a reader: read back as it was written, for these weights only, and refused when it is damaged."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from cacr.encoders import Reader, build_encoder, load_encoder, save_encoder
from cacr.encoders.files import WEIGHTS, reader_file
from cacr.encoders.reader_file import READER, save_reader
from cacr.errors import UserError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An encoder with a reader of three components."""
    torch.manual_seed(0)
    encoder = build_encoder("small_alexnet", image_size=16, width=0.05)
    save_encoder(tmp_path, encoder, encoder.info)
    dim = encoder.feature_dim
    save_reader(tmp_path / READER, Reader("white", 70, torch.randn(dim), torch.randn(dim, 3)), encoder)
    return tmp_path


def test_it_comes_back_with_the_encoder(folder: Path) -> None:
    encoder = load_encoder(folder)
    assert encoder.reader is not None and (encoder.reader.kind, encoder.reader.images) == ("white", 70)
    stored = load_file(folder / READER)
    features = torch.randn(5, encoder.feature_dim)
    expected = (features.double() - stored["mean"].double()) @ stored["map"].double()
    torch.testing.assert_close(encoder.reader(features), expected.float())
    (folder / READER).unlink()
    assert load_encoder(folder).reader is None


@pytest.mark.parametrize("kind", ["raw", "centred"])
def test_readers_without_a_map(kind: str, folder: Path) -> None:
    encoder = load_encoder(folder)
    save_reader(folder / READER, Reader(kind, 9, torch.ones(encoder.feature_dim)), encoder)
    reader = load_encoder(folder).reader
    assert reader is not None and (reader.kind, reader.map, reader.dim) == (kind, None, encoder.feature_dim)


def test_a_reader_of_other_weights_is_not_used(folder: Path) -> None:
    encoder = load_encoder(folder)
    with torch.no_grad():
        next(encoder.backbone.parameters()).view(-1)[0] += 1e-3
    save_encoder(folder, encoder, encoder.info)
    assert load_encoder(folder).reader is None


def test_a_weights_file_of_another_name_has_its_own_reader(folder: Path) -> None:
    before, other = load_encoder(folder).reader, folder / "photos.safetensors"
    for source, target in (
        (folder / WEIGHTS, other),
        (folder / "encoder.json", other.with_suffix(".json")),
        (folder / READER, folder / "photos.reader.safetensors"),
    ):
        shutil.move(source, target)
    found = load_encoder(other).reader
    assert found is not None and before is not None
    assert torch.equal(found.mean, before.mean) and found.kind == before.kind
    assert reader_file(folder / "a.b.onnx").name == "a.b.onnx.reader.safetensors"


def _changed(**facts: str | None) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        sound = {"format": "1", "kind": "white", "images": "70", "encoder": "0" * 16} | facts
        save_file(load_file(path), path, {name: value for name, value in sound.items() if value is not None})

    return change


def _tensors(change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        stored = {name: value.contiguous() for name, value in change(load_file(path)).items()}
        save_file(stored, path, {"format": "1", "kind": "white", "images": "70", "encoder": "x"})

    return write


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(b""), "not a readable safetensors file"),
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), "not a readable safetensors file"),
        (_changed(format=None), "no format version"),
        (_changed(format="99"), "upgrade cacr"),
        (_changed(kind="grey"), "kind"),
        (_changed(images="0"), "images"),
        (_changed(encoder=None), "encoder"),
        (_changed(kind="centred"), "a reader of kind centred has mean, this one"),
        (_tensors(lambda t: {"map": t["map"]}), "a reader of kind white has mean and map, this one map"),
        (_tensors(lambda t: {**t, "mean": t["mean"][:-1]}), "mean has the shape"),
        (_tensors(lambda t: {**t, "map": t["map"].T}), "map has the shape"),
        (_tensors(lambda t: {**t, "map": t["map"][:, 0]}), "map has the shape"),
        (_tensors(lambda t: {**t, "map": t["map"][:, :0]}), "map does not have finite numbers"),
        (_tensors(lambda t: {**t, "map": t["map"] * torch.inf}), "map does not have finite numbers"),
        (_tensors(lambda t: {**t, "mean": t["mean"].long()}), "mean does not have finite numbers"),
    ],
)
def test_damage_is_told(damage: Callable[[Path], None], message: str, folder: Path) -> None:
    damage(folder / READER)
    with pytest.raises(UserError, match=message) as caught:
        load_encoder(folder)
    assert str(folder / READER) in str(caught.value)
    assert load_encoder(folder, with_reader=False).reader is None
