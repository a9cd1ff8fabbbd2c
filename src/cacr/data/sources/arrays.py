"""Arrays in files: .npz with images and labels, or .npy, memory-mapped."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from cacr.data.levels import MOST_CHANNELS
from cacr.data.registry import SOURCES, Request
from cacr.data.source import ArraySource
from cacr.errors import UserError
from cacr.reading.arrays import map_npy, names_in, read_npz


@SOURCES.register("npz")
def open_npz(request: Request) -> ArraySource:
    """An .npz file: x (N, H, W, C) uint8 or uint16 and optionally classes y (N,)."""
    path = _train_file(request)
    stored = read_npz(path, ("x", "y"))
    if "x" not in stored:
        found = ", ".join(names_in(path)[:20])
        raise UserError(f"{path} needs an array x of images; it has {found or 'nothing'}")
    images = image_tensor(path, stored["x"])
    labels = _checked_labels(path, stored["y"], len(images)) if "y" in stored else None
    return ArraySource(request.spec, images, labels=labels)


@SOURCES.register("npy")
def open_npy(request: Request) -> ArraySource:
    """An .npy file of images (N, H, W, C) uint8 or uint16, memory-mapped: it may be larger than memory."""
    path = _train_file(request)
    return ArraySource(request.spec, image_tensor(path, map_npy(path)))


def image_tensor(path: Path, pixels: NDArray[np.generic]) -> torch.Tensor:
    """(N, C, H, W), a view of (N, H, W) or (N, H, W, C); 8-bit grey becomes three equal channels."""
    sound = pixels.dtype in (np.uint8, np.uint16) and pixels.ndim in (3, 4)
    if not sound or (pixels.ndim == 4 and pixels.shape[3] > MOST_CHANNELS):
        raise UserError(
            f"{path}: images must be uint8 or uint16 (N, H, W, C) with at most {MOST_CHANNELS} channels, "
            f"not {pixels.dtype} {pixels.shape}"
        )
    if not all(pixels.shape):
        raise UserError(f"{path} has no images: its shape is {pixels.shape}")
    images = torch.from_numpy(pixels if pixels.ndim == 4 else pixels[..., None])
    grey = pixels.dtype == np.uint8 and images.shape[3] == 1
    return images.permute(0, 3, 1, 2).expand(-1, 3 if grey else -1, -1, -1)


def _checked_labels(path: Path, labels: NDArray[np.generic], count: int) -> NDArray[np.int64]:
    wrong = ""
    if labels.shape != (count,) or not np.issubdtype(labels.dtype, np.integer):
        wrong = f"it is {labels.dtype} {labels.shape}"
    elif count and not 0 <= int(labels.min()) <= int(labels.max()) <= np.iinfo(np.int64).max:
        wrong = f"they are from {labels.min()} to {labels.max()}"
    if wrong:
        raise UserError(
            f"{path}: y must have {count} labels, integers from 0, but {wrong}; leave out y if there are no labels"
        )
    return labels.astype(np.int64)


def _train_file(request: Request) -> Path:
    if request.part == "test":
        raise request.missing_part("a file of arrays has only one part; give the file of the test images")
    return request.file()
