"""Copies are found by a few pixels."""

from pathlib import Path

import numpy as np
from PIL import Image

from cacr.data import open_source
from cacr.data.pixels import DUPLICATE, correlation, thumbnails


def _photo(number: int) -> Image.Image:
    """Noise with about the spectrum of a photo with much detail, such as leaves."""
    rng = np.random.default_rng(number)
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(224), np.fft.fftfreq(300), indexing="ij"))
    frequency[0, 0] = 1
    values = np.fft.ifft2(np.fft.fft2(rng.normal(size=(224, 300))) / frequency**0.8).real
    pixels = (128 + 50 * values / values.std()).clip(0, 255).astype(np.uint8)
    return Image.fromarray(np.repeat(pixels[..., None], 3, 2))


def test_resized_copies_of_photos_correlate_like_copies(tmp_path: Path) -> None:
    for number in range(12):
        photo = _photo(number)
        photo.save(tmp_path / f"{number:02d}-a.jpg", quality=90)
        photo.resize((180, 134), Image.Resampling.BICUBIC).save(tmp_path / f"{number:02d}-b.jpg", quality=80)
    pixels = thumbnails(open_source(str(tmp_path)), range(24))
    found = correlation(pixels[0::2], pixels[1::2])
    others = correlation(pixels[0:22:2], pixels[2:24:2])
    assert found.min() >= DUPLICATE
    assert others.max() < DUPLICATE
