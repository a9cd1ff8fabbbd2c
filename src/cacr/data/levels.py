"""Images that are not 8-bit RGB: one to many channels of 8 or 16 bits, without loss.

Their values are *levels*, float32 from 0 to 255: 16-bit values are divided by 257, and all stay distinct.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageSequence
from torch import Tensor

from cacr.decode import open_image, require_regular, unreadable
from cacr.errors import UnreadableImageError, UserError
from cacr.reading.arrays import map_npy

MOST_CHANNELS = 256
"""More channels mean that the axes of an image were confused."""

SIXTEEN_BITS = 257
"""65,535 / 255."""

SUFFIXES = frozenset({".npy", ".tif", ".tiff", ".png"})
"""Suffixes of files that are read without loss."""

_BITS_TAG = 258
_PNG_HEADER, _PNG_GREY = 26, 0


def levels(values: NDArray[Any] | Tensor) -> Tensor:
    """Float32 from 0 to 255, from integers of 8 or 16 bits."""
    if isinstance(values, Tensor):
        values = values.numpy()
    found = torch.from_numpy(values.astype(np.float32))
    return found.div_(SIXTEEN_BITS) if values.dtype.itemsize == 2 else found


def preview(image: Tensor) -> Image.Image:
    """Levels (channels, h, w) as a picture for people: the first three channels, or the first, scaled to its range."""
    shown = image[:3] if len(image) >= 3 else image[:1].expand(3, -1, -1)
    low, high = shown.min(), shown.max()
    scaled = (shown - low) * (255 / (high - low).clamp(min=1e-6))
    return Image.fromarray(scaled.round().to(torch.uint8).permute(1, 2, 0).numpy())


def read_levels(path: Path, where: str) -> Tensor:
    """Levels (channels, h, w) of one file: ``.npy`` of (h, w) or (h, w, channels), TIFF, or PNG.

    The pages of a TIFF are channels.

    Raises:
        UnreadableImageError: names the file as ``where``.
    """
    require_regular(path, where)
    try:
        if path.suffix.lower() == ".npy":
            return from_array(np.array(map_npy(path)), where)
        return _png(path, where) if path.suffix.lower() == ".png" else _tiff(path, where)
    except (UnreadableImageError, MemoryError):
        raise
    except UserError as error:
        raise UnreadableImageError(where, str(error)) from None
    except Exception as error:
        raise unreadable(where, error) from error


def from_array(values: NDArray[Any], where: str) -> Tensor:
    """Levels (channels, h, w) of an array (h, w) or (h, w, channels).

    Raises:
        UnreadableImageError: the array has another type or shape.
    """
    cube = values[..., None] if values.ndim == 2 else values
    if cube.dtype not in (np.uint8, np.uint16) or cube.ndim != 3 or not 0 < cube.shape[2] <= MOST_CHANNELS:
        raise UnreadableImageError(
            where, f"{values.dtype} {values.shape}, not uint8 or uint16 (height, width[, channels])"
        )
    if not cube.size:
        raise UnreadableImageError(where, "no pixels")
    return levels(np.ascontiguousarray(cube.transpose(2, 0, 1)))


def _png(path: Path, where: str) -> Tensor:
    with path.open("rb") as file:
        header = file.read(_PNG_HEADER)
    if len(header) == _PNG_HEADER and header[24] == 16 and header[25] != _PNG_GREY:
        raise UnreadableImageError(
            where, "16 bits per colour, which Pillow reduces to 8: save it as .npy or TIFF"
        )
    with open_image(path, where) as image:
        plain = image.convert("RGB") if image.mode in ("P", "1") else image
        return from_array(np.asarray(plain), where)


def _tiff(path: Path, where: str) -> Tensor:
    pages = []
    with open_image(path, where) as image:
        for page in ImageSequence.Iterator(image):
            bits = getattr(page, "tag_v2", {}).get(_BITS_TAG, (8,))
            if max(bits) > 8 and len(bits) > 1:
                raise UnreadableImageError(
                    where,
                    f"{len(bits)} interleaved channels of {max(bits)} bits: save each as a page, or as .npy",
                )
            values = np.asarray(page)
            if values.dtype == np.int32 and values.min() >= 0 and values.max() <= np.iinfo(np.uint16).max:
                values = values.astype(np.uint16)
            pages.append(from_array(values, where))
            if sum(map(len, pages)) > MOST_CHANNELS:
                raise UnreadableImageError(where, f"more than {MOST_CHANNELS} channels")
    if len({page.shape[1:] for page in pages}) > 1:
        raise UnreadableImageError(where, "its pages have different sizes, so they cannot be channels")
    return torch.cat(pages)
