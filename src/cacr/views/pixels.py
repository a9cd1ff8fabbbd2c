"""Convert normalised images back to pixels for people."""

from collections.abc import Sequence

import torch
from torch import Tensor


def unnormalised(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Undo the normalisation of images (..., 3, h, w): float32, about 0 to 1.

    Args:
        images: normalised, (..., 3, h, w).
        mean: mean per channel that was subtracted.
        std: standard deviation per channel that was divided by.
    """
    m, s = (torch.tensor(values).view(-1, 1, 1) for values in (mean, std))
    return images.cpu().float() * s + m


def normalised(pixels: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Normalise uint8 images (..., 3, h, w) for an encoder, in float32."""
    m, s = (torch.tensor(values).view(-1, 1, 1) for values in (mean, std))
    return (pixels.float() / 255 - m) / s


def as_rgb(images: Tensor) -> Tensor:
    """(..., 3, h, w) from any number of channels: the first three, or the first one three times."""
    channels = images.shape[-3]
    return (
        images[..., :3, :, :]
        if channels >= 3
        else images[..., :1, :, :].expand(*images.shape[:-3], 3, -1, -1)
    )


def as_bytes(images: Tensor) -> Tensor:
    """Values from 0 to 1 as uint8 from 0 to 255; values outside are clipped."""
    return images.mul(255).round().clamp(0, 255).to(torch.uint8)
