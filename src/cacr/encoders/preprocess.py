"""Prepare one image of a user for an encoder."""

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.nn.functional import interpolate

from cacr.decode import read_rgb
from cacr.errors import UserError
from cacr.files import printable

ImageLike = Image.Image | np.ndarray | Tensor | str | PathLike[str]


def to_pil(image: ImageLike) -> Image.Image:
    """An RGB image from a PIL image, a uint8 array (h, w[, 3]) or tensor (3, h, w), or the path of a file."""
    if isinstance(image, str | PathLike):
        return read_rgb(Path(image), printable(str(image)))
    if isinstance(image, Image.Image):
        return image.convert("RGB")
    if isinstance(image, Tensor):
        image = (image.movedim(0, -1) if image.ndim == 3 else image).cpu().numpy()
    if image.dtype != np.uint8 or image.ndim not in (2, 3):
        raise UserError(
            f"an image array must be uint8 (height, width, 3) or a uint8 tensor (3, height, width), "
            f"not {image.dtype} of shape {tuple(image.shape)}"
        )
    return Image.fromarray(image.squeeze(-1) if image.shape[-1] == 1 else image).convert("RGB")


_FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def centre_crop(image: Image.Image, resize: int, size: int, interpolation: str = "bilinear") -> Image.Image:
    """The centre square of ``size`` pixels after the shorter side was resized to ``resize`` pixels."""
    shorter = min(image.size)
    width, height = (resize * side // shorter for side in image.size)
    left, top = round((width - size) / 2), round((height - size) / 2)
    resized = image.resize((width, height), _FILTERS[interpolation])
    return resized.crop((left, top, left + size, top + size))


def normalise(image: Image.Image, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """(3, h, w) float32: each channel in [0, 1], minus its mean, divided by its standard deviation."""
    values = torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255
    return (values - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]


def prepare_levels(
    image: NDArray[Any], resize: int, size: int, mean: tuple[float, ...], std: tuple[float, ...]
) -> Tensor:
    """(channels, size, size) of an array (h, w[, channels]) of 8 or 16 bits, as in its evaluation views.

    Raises:
        UserError: it has other channels, or another data type.
    """
    cube = image[..., None] if image.ndim == 2 else image
    if cube.dtype not in (np.uint8, np.uint16) or cube.ndim != 3 or cube.shape[2] != len(mean):
        raise UserError(
            f"an image must be uint8 or uint16 (height, width, {len(mean)}), not {image.dtype} of shape {image.shape}"
        )
    values = torch.from_numpy(cube.astype(np.float32)).permute(2, 0, 1) / np.iinfo(cube.dtype).max
    shorter = min(values.shape[1:])
    height, width = (resize * side // shorter for side in values.shape[1:])
    resized = interpolate(values[None], (height, width), mode="bilinear", antialias=True)[0]
    top, left = round((height - size) / 2), round((width - size) / 2)
    cut = resized[:, top : top + size, left : left + size]
    return (cut - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
