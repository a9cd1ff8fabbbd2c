"""From what an encoder takes back to pixels that a person can look at."""

from collections.abc import Sequence

import torch
from torch import Tensor


def unnormalised(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Images (..., 3, h, w) with the normalisation undone: float32, about 0 to 1.

    Args:
        images: normalised, (..., 3, h, w).
        mean: of each channel, that was subtracted.
        std: of each channel, that was divided by.
    """
    m, s = (torch.tensor(values).view(-1, 1, 1) for values in (mean, std))
    return images.cpu().float() * s + m


def normalised(pixels: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """The way back: uint8 (..., 3, h, w) as an encoder takes them, in float32."""
    m, s = (torch.tensor(values).view(-1, 1, 1) for values in (mean, std))
    return (pixels.float() / 255 - m) / s


def as_rgb(images: Tensor) -> Tensor:
    """(..., 3, h, w) of any number of channels: the first three, or the first one three times."""
    channels = images.shape[-3]
    return (
        images[..., :3, :, :]
        if channels >= 3
        else images[..., :1, :, :].expand(*images.shape[:-3], 3, -1, -1)
    )


def as_bytes(images: Tensor) -> Tensor:
    """Values of 0 to 1 as uint8 of 0 to 255; what is outside is cut off."""
    return images.mul(255).round().clamp(0, 255).to(torch.uint8)
