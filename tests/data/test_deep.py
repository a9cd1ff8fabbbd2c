"""Images of any number of channels and 16 bits, without loss, from files to features."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn.functional import interpolate

import cacr
from cacr.data import Loader, known_labels, open_source, prepare
from cacr.data.levels import read_levels
from cacr.encoders import build_encoder, load_encoder, load_weights, save_encoder
from cacr.errors import UnreadableImageError, UserError
from cacr.views import PRESETS, Augmentation, Views
from tests.conftest import Run, refused


def sixteen(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 65536, shape, dtype=np.uint16)


def test_every_level_of_16_bits_stays_itself(tmp_path: Path) -> None:
    values = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    np.save(tmp_path / "a.npy", values)
    Image.fromarray(values).save(tmp_path / "b.tif")
    Image.fromarray(values).save(tmp_path / "c.png")
    for name in ("a.npy", "b.tif", "c.png"):
        found = read_levels(tmp_path / name, name)
        assert found.shape == (1, 256, 256)
        assert torch.equal((found[0] * 257).round().int(), torch.from_numpy(values.astype(np.int32)))
        assert len(found.unique()) == 65536


def test_pages_of_a_tiff_and_the_last_axis_of_an_array_are_channels(tmp_path: Path) -> None:
    cube = sixteen(8, 9, 4)
    pages = [Image.fromarray(cube[..., channel]) for channel in range(4)]
    pages[0].save(tmp_path / "a.tif", save_all=True, append_images=pages[1:])
    np.save(tmp_path / "b.npy", cube)
    one, two = (read_levels(tmp_path / name, name) for name in ("a.tif", "b.npy"))
    assert one.shape == (4, 8, 9) and torch.equal(one, two)
    np.save(tmp_path / "c.npy", cube.astype(np.float32))
    with pytest.raises(UnreadableImageError, match="not uint8 or uint16"):
        read_levels(tmp_path / "c.npy", "c")


@pytest.mark.parametrize("kind", ["npz", "npy", "deep"])
def test_views_of_evaluation_are_those_of_the_exact_values(kind: str, tmp_path: Path) -> None:
    """Against a resize in float64 of the 16-bit values; 8 bits would be wrong by a hundred times the tolerance."""
    cubes = sixteen(3, 20, 20, 5)
    file = tmp_path / f"x.{kind}"
    if kind == "npz":
        np.savez(file, x=cubes)
    elif kind == "npy":
        np.save(file, cubes)
    else:
        file.mkdir()
        for number, cube in enumerate(cubes):
            np.save(file / f"{number}.npy", cube)
    source = open_source(f"{kind}:{file}")
    assert source.channels == 5 and source.deep and source.read(0).mode == "RGB"
    view = Augmentation(10, scale=None, resize=10, flip=0.0)
    views = Views([view], (0.5,) * 5, (0.25,) * 5)
    loader = Loader(source, batch_size=3, seed=0, crop=views.crop, shuffle=False)
    ((made,),) = views(next(loader.epoch(0)).images, torch.Generator())
    exact = torch.from_numpy(cubes.astype(np.float64)).permute(0, 3, 1, 2) / 65535
    wanted = (interpolate(exact, (10, 10), mode="bilinear", antialias=True) - 0.5) / 0.25
    torch.testing.assert_close(made.double(), wanted, atol=1e-5, rtol=0)
    encoder = build_encoder("small_alexnet", image_size=16, width=0.05, channels=5)
    assert encoder.preprocess(cubes[0]).shape == (5, 16, 16)


def test_brightness_and_contrast_change_any_channels() -> None:
    """By their definitions, with the mean of all channels in the place of luma."""
    preset = PRESETS["cifar"].with_options(
        hue=0,
        saturation=0,
        grey=0,
        contrast=0,
        brightness=0.4,
        mean=(0.0, 0.0),
        std=(1.0, 1.0),
        scale=(1.0, 1.0),
        ratio=(1.0, 1.0),
        flip=0,
    )
    images = torch.full((2, 2, 32, 32), 51.0)
    images[:, 1] = 102.0
    (made,) = Views(preset.for_views(2), preset.mean, preset.std)(images, torch.Generator().manual_seed(0))
    ratio = made[:, :, 0] / 0.2
    torch.testing.assert_close(made[:, :, 1], 0.4 * ratio)
    assert 0.6 - 1e-4 <= float(ratio.min()) < float(ratio.max()) <= 1.4 + 1e-4


def test_weights_for_rgb_are_adapted_to_other_channels(tmp_path: Path) -> None:
    """An image whose channels are all alike gives the features of the same image in grey RGB."""
    donor = build_encoder("mobilenetv3_small_050", image_size=32)
    torch.save(donor.backbone.state_dict(), tmp_path / "a.pth")
    encoder = build_encoder("mobilenetv3_small_050", image_size=32, channels=1)
    found = load_weights(encoder, tmp_path / "a.pth")
    assert found.missing == ()
    images = torch.randn(2, 1, 32, 32)
    torch.testing.assert_close(
        encoder.eval()(images), donor.eval()(images.expand(-1, 3, -1, -1)), atol=1e-4, rtol=1e-3
    )


@pytest.mark.trains
def test_the_whole_way_with_two_channels(tmp_path: Path) -> None:
    for part, seed in (("train", 0), ("test", 1)):
        for label in ("dark", "light"):
            folder = tmp_path / "cells" / part / label
            folder.mkdir(parents=True)
            for number in range(8):
                level = 3000 if label == "dark" else 9000
                np.save(folder / f"{number}.npy", level + sixteen(24, 24, 2, seed=seed + number) // 32)
    data = f"deep:{tmp_path / 'cells'}"
    short = {"max_steps": 2, "epochs": 1, "batch_size": 4, "views": 2, "workers": 0, "width": 0.05}
    with pytest.raises(UserError, match="hue needs RGB images"):
        cacr.pretrain(out=tmp_path / "no", data=data, hue=0.1, **short)
    run = tmp_path / "run"
    cacr.pretrain(out=run, data=data, **short)
    info = load_encoder(run).info
    assert info.channels == 2
    seen = np.stack([np.load(path) for path in (tmp_path / "cells" / "train").rglob("*.npy")]) / 65535
    np.testing.assert_allclose(info.mean, seen.mean(axis=(0, 1, 2)), rtol=1e-2)
    np.testing.assert_allclose(info.std, seen.std(axis=(0, 1, 2)), rtol=1e-2)
    assert '"places"' in (run / "report.html").read_text()  # the map, with pictures of what a person sees
    (result, *_) = cacr.evaluate(run=run, data=data, protocol="knn", workers=0)
    assert result.counts["test_images"] == 16
    found = cacr.search(run=run, image="0", data=data, k=2)
    assert len(found.neighbours) == 2
    cacr.export(run=run, to="torch", out=tmp_path / "a.safetensors")
    np.savez(tmp_path / "other.npz", x=sixteen(8, 24, 24, 4))
    with pytest.raises(UserError, match="4 channels, but this encoder takes 2"):
        cacr.embed(run=run, data=f"npz:{tmp_path / 'other.npz'}", out=tmp_path / "b.npz")


def cells(folder: Path, *, count: int = 6) -> Path:
    """A folder of images of two channels and 16 bits, with other files beside them."""
    folder.mkdir()
    for number in range(count):
        np.save(folder / f"cell{number}.npy", sixteen(24, 24, 2, seed=number))
    (folder / "notes.txt").write_text("x")
    (folder / "photo.jpg").write_bytes(b"x")
    return folder


def test_images_of_other_channels_are_named_as_files_are(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In lists and labels by their file's name, in `search` by their file, one of the data or another."""
    monkeypatch.setattr(
        "cacr.commands.doctor_speed.MEASURE_SECONDS", 0.01
    )  # how fast this machine is, nobody asks here
    folder = cells(tmp_path / "cells")
    (folder / "labels.csv").write_text("name,label\n" + "".join(f"cell{n}.npy,{n % 2}\n" for n in range(6)))
    (tmp_path / "list.txt").write_text("cell1.npy\ncell3.npy\ncell4\n")
    chosen = open_source(f"deep:{folder}", images=str(tmp_path / "list.txt"))
    assert [Path(chosen.describe(number)).stem for number in range(3)] == ["cell1", "cell3", "cell4"]
    known = known_labels(open_source(f"deep:{folder}"), None)
    assert known is not None and known.labels.tolist() == [0, 1] * 3
    encoder = build_encoder("small_alexnet", image_size=16, width=0.05, channels=2)
    save_encoder(tmp_path / "run", encoder, encoder.info)
    found = cacr.search(run=tmp_path / "run", image=folder / "cell2.npy", data=f"deep:{folder}", k=9)
    assert len(found.neighbours) == 5  # without itself
    np.save(tmp_path / "other.npy", np.load(folder / "cell2.npy"))
    found = cacr.search(run=tmp_path / "run", image=tmp_path / "other.npy", data=f"deep:{folder}", k=1)
    assert found.neighbours[0].name == str(folder / "cell2.npy")
    assert found.neighbours[0].similarity == pytest.approx(1, abs=1e-5)
    code, text = run("doctor", f"deep:{folder}")
    assert code == 0 and "6 images, 6 checked" in text
    assert "not read: 1 .jpg: deep: reads" in text and "not read: 1 .txt:" in text
    assert "cacr group" not in text  # which would refuse these channels


def test_16_bits_in_an_ordinary_folder_are_not_cut_silently(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "cacr.commands.doctor_speed.MEASURE_SECONDS", 0.01
    )  # how fast this machine is, nobody asks here
    folder = tmp_path / "grey"
    folder.mkdir()
    for number in range(3):
        Image.fromarray(sixteen(24, 24, seed=number)).save(folder / f"{number}.png")
    note = f"3 images have 16 bits, but only 8 are used; deep:{folder} uses all 16"
    assert note in prepare(open_source(str(folder))).source.notes
    code, text = run("doctor", folder)
    assert code == 0 and "3 of 3 images have 16 bits" in text
    arrays = tmp_path / "arrays"
    arrays.mkdir()
    np.save(arrays / "0.npy", sixteen(24, 24))
    refused(run, ["doctor", arrays], f"deep:{arrays} reads the arrays")
