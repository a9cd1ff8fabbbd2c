"""Every kind of image becomes upright plain RGB, or an error that names it."""

import errno
import io
import pickle
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from cacr.decode import read_rgb
from cacr.errors import UnreadableImageError, UserError
from tests.data.making import picture, save, truncate


def decoded(path: Path) -> np.ndarray:
    image = read_rgb(path, path.name)
    assert image.mode == "RGB"
    return np.asarray(image).astype(int)


@pytest.mark.parametrize("suffix", ["png", "bmp", "tif", "ppm", "webp"])
def test_formats_without_loss_keep_their_pixels(tmp_path: Path, suffix: str) -> None:
    options = {"lossless": True} if suffix == "webp" else {}
    path = save(tmp_path / f"a.{suffix}", **options)
    assert np.array_equal(decoded(path), np.asarray(picture()))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_exif_orientation_is_applied(tmp_path: Path, orientation: int, suffix: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = save(tmp_path / f"a.{suffix}", exif=exif)
    with Image.open(path) as image:
        expected = np.asarray(ImageOps.exif_transpose(image))
    assert np.array_equal(decoded(path), expected)
    assert expected.shape[:2] == ((16, 24) if orientation < 5 else (24, 16))


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_damaged_exif_does_not_condemn_the_picture(tmp_path: Path) -> None:
    path = save(tmp_path / "a.jpg", exif=b"Exif\x00\x00II*\x00\xff\xff\xff\xff")
    assert decoded(path).shape == (16, 24, 3)


def test_grey_and_bilevel_get_three_equal_channels(tmp_path: Path) -> None:
    grey = picture().convert("L")
    result = decoded(save(tmp_path / "a.png", grey))
    assert np.array_equal(result, np.repeat(np.asarray(grey)[..., None], 3, axis=2))
    bilevel = picture().convert("1")
    assert np.array_equal(decoded(save(tmp_path / "b.png", bilevel))[..., 1], np.asarray(bilevel) * 255)


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_alpha_is_laid_on_white(tmp_path: Path, mode: str) -> None:
    image = picture().convert(mode)
    alpha = np.linspace(0, 255, 24 * 16).astype(np.uint8).reshape(16, 24)
    image.putalpha(Image.fromarray(alpha))
    result = decoded(save(tmp_path / "a.png", image))
    opacity = alpha[..., None] / 255
    expected = np.asarray(image.convert("RGBA"))[..., :3] * opacity + 255 * (1 - opacity)
    assert np.abs(result - expected).max() <= 1
    assert (result[0, 0] == 255).all()


def test_a_transparent_palette_entry_becomes_white(tmp_path: Path) -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.putdata([0, 1])
    path = save(tmp_path / "a.png", image, transparency=0)
    assert decoded(path).tolist() == [[[255, 255, 255], [200, 100, 50]]]


def test_a_transparent_colour_of_an_rgb_png_becomes_white(tmp_path: Path) -> None:
    image = Image.new("RGB", (2, 1), (1, 2, 3))
    image.putpixel((1, 0), (9, 9, 9))
    path = save(tmp_path / "a.png", image, transparency=(1, 2, 3))
    assert decoded(path).tolist() == [[[255, 255, 255], [9, 9, 9]]]


def test_cmyk_becomes_rgb(tmp_path: Path) -> None:
    path = save(tmp_path / "a.jpg", picture().convert("CMYK"), quality=100)
    assert np.abs(decoded(path) - np.asarray(picture())).mean() < 4


def test_sixteen_bits_are_divided_by_257(tmp_path: Path) -> None:
    values = np.array([[0, 257, 257 * 128, 65535]], dtype=np.uint16)
    for name in ("a.png", "a.tif"):
        path = save(tmp_path / name, Image.fromarray(values))
        assert decoded(path)[0, :, 0].tolist() == [0, 1, 128, 255]


def test_float_and_32_bit_grey_is_stretched_to_its_extremes(tmp_path: Path) -> None:
    floats = Image.fromarray(np.array([[-1.0, 0.0, 1.0]], dtype=np.float32))
    assert decoded(save(tmp_path / "a.tif", floats))[0, :, 2].tolist() == [0, 128, 255]
    integers = Image.fromarray(np.array([[0, 500_000, 1_000_000]], dtype=np.int32))
    assert decoded(save(tmp_path / "b.tif", integers))[0, :, 2].tolist() == [0, 128, 255]


def test_the_first_frame_stands_for_an_animation(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (5, 4), colour) for colour in ("red", "lime", "blue")]
    for name in ("a.gif", "a.png", "a.webp"):
        path = save(tmp_path / name, frames[0], save_all=True, append_images=frames[1:])
        assert np.abs(decoded(path) - [255, 0, 0]).max() <= 1, name


def test_large_jpegs_are_decoded_smaller_but_never_too_small(tmp_path: Path) -> None:
    path = save(tmp_path / "a.jpg", picture(width=640, height=480))
    assert read_rgb(path, "a", at_least=100).size == (160, 120)
    assert read_rgb(path, "a", at_least=241).size == (640, 480)
    assert read_rgb(path, "a").size == (640, 480)
    small = np.asarray(read_rgb(path, "a", at_least=100)).astype(int)
    full = np.asarray(read_rgb(path, "a").resize((160, 120), Image.Resampling.BOX)).astype(int)
    assert np.abs(small - full).mean() < 2


def test_a_scaled_decoding_is_still_turned_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    path = save(tmp_path / "a.jpg", picture(width=640, height=480), exif=exif)
    assert read_rgb(path, "a", at_least=100).size == (120, 160)


def test_decompression_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "a.png", picture(width=50, height=50))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 2499)
    with pytest.warns(Image.DecompressionBombWarning), pytest.raises(UnreadableImageError, match="bomb"):
        read_rgb(path, "a")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)  # Pillow itself refuses at twice its limit
    with pytest.raises(UnreadableImageError, match="bomb"):
        read_rgb(path, "a")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 2500)
    assert read_rgb(path, "a").size == (50, 50)


def test_damage_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "words.jpg").write_text("not a picture")
    (tmp_path / "folder.jpg").mkdir()
    truncate(save(tmp_path / "half.jpg", picture(width=300, height=300)))
    truncate(save(tmp_path / "half.png", picture(width=300, height=300)))
    for name in ("empty.jpg", "words.jpg", "folder.jpg", "half.jpg", "half.png", "absent.jpg"):
        with pytest.raises(UnreadableImageError) as caught:
            read_rgb(tmp_path / name, name)
        assert str(caught.value).startswith(f"{name}: "), name
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_an_empty_file_is_called_empty(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").touch()
    for file in (tmp_path / "a.jpg", io.BytesIO()):
        with pytest.raises(UnreadableImageError, match="the file is empty"):
            read_rgb(file, "a.jpg")


def test_a_failing_disk_is_not_taken_for_a_damaged_image() -> None:
    class Failing(io.BytesIO):
        def read(self, *_: object) -> bytes:
            raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(UserError, match=r"a\.jpg: Input/output error") as caught:
        read_rgb(Failing(), "a.jpg")
    assert not isinstance(caught.value, UnreadableImageError)
