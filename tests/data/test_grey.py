"""Which images have no colour, whatever file they come in."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cacr.data.grey import is_grey
from cacr.decode import read_rgb
from tests.conftest import save_images


@pytest.mark.parametrize(
    ("suffix", "options"),
    [(".png", {}), (".jpg", {"quality": 20}), (".jpg", {"quality": 90}), (".webp", {"quality": 40})],
)
def test_lossy_files_of_grey_images_are_grey(tmp_path: Path, suffix: str, options: dict[str, int]) -> None:
    (noise,) = save_images(tmp_path, 1, size=64)
    for mode in ("L", "RGB"):  # one channel in the file, and three that are alike
        path = tmp_path / f"{mode}{suffix}"
        Image.open(noise).convert("L").convert(mode).save(path, **options)
        assert is_grey(read_rgb(path, "test"))


@pytest.mark.parametrize("channel", range(3))
def test_one_coloured_pixel_is_a_colour_and_a_slip_of_the_chroma_is_not(channel: int) -> None:
    pixels = np.full((20, 30, 3), 100, dtype=np.uint8)
    pixels[7, 9, channel] = 104
    assert is_grey(Image.fromarray(pixels))
    for value in (130, 70):
        pixels[7, 9, channel] = value
        assert not is_grey(Image.fromarray(pixels))
