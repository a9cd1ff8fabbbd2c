"""Crop, antialiased resize and flip of a batch as two small matrix products per image."""

import torch
from torch import Tensor

from cacr.views.augmentation import Interpolation
from cacr.views.draws import Crops


def filter_weights(
    start: Tensor,
    extent: Tensor,
    low: Tensor,
    high: Tensor,
    *,
    length: int,
    size: int,
    reverse: Tensor | None = None,
    interpolation: Interpolation = "bilinear",
) -> Tensor:
    """Weights of the separable filter with which Pillow and torchvision resize along one axis.

    Output pixel i of ``size`` looks at c_i = start + (i + 1/2) extent / size and weighs input pixel j by
    f((j + 1/2 - c_i) / max(extent / size, 1)), normalised to one over low <= j < high; f is the triangle or
    the cubic (a = -1/2) kernel.

    Args:
        start: (items,) where the window begins.
        extent: (items,) its length.
        low: (items,) first input pixel that may be read.
        high: (items,) one past the last.
        length: Number of input pixels.
        size: Number of output pixels.
        reverse: (items,) bool, output pixels from last to first.
        interpolation: The kernel.

    Returns:
        (items, size, length) float32.
    """
    scale = (extent / size)[:, None]
    steps = torch.arange(size, dtype=torch.float64) + 0.5
    if reverse is not None:
        steps = torch.where(reverse[:, None], size - steps, steps)
    centre = (start[:, None] + steps * scale - 0.5).float()[:, :, None]
    width = scale.clamp_min(1).float()[:, :, None]
    pixel = torch.arange(length, dtype=torch.float32)
    distance = (pixel - centre).abs_()
    # the kernels up to a constant factor, which the normalisation removes
    weights = (
        _cubic(distance.div_(width)) if interpolation == "bicubic" else distance.sub_(width).clamp_max_(0)
    )
    inside = (pixel >= low[:, None]) & (pixel < high[:, None])
    weights *= inside[:, None, :].float()
    return weights.div_(weights.sum(dim=2, keepdim=True))


def _cubic(x: Tensor) -> Tensor:
    # Keys' kernel, a = -1/2, x >= 0: 1.5 x^3 - 2.5 x^2 + 1 up to 1, -0.5 x^3 + 2.5 x^2 - 4 x + 2 up to 2
    near = ((1.5 * x - 2.5) * x * x + 1) * (x <= 1)
    far = (((-0.5 * x + 2.5) * x - 4) * x + 2) * ((x > 1) & (x < 2))
    return near + far


def crop_resize(images: Tensor, crops: Crops, size: int, interpolation: Interpolation) -> Tensor:
    """Each image's window, resized, flipped and scaled to [0, 1].

    Args:
        images: uint8 (items, 3, height, width).
        crops: The windows, one per image.
        size: Side of the output.
        interpolation: Filter of the resize.

    Returns:
        Float32 planes (3, items, size, size).
    """
    items, channels, height, width = images.shape
    rows, columns = (
        filter_weights(
            crops.start[:, axis],
            crops.extent[:, axis],
            crops.low[:, axis],
            crops.high[:, axis],
            length=(height, width)[axis],
            size=size,
            interpolation=interpolation,
            reverse=crops.flip if axis else None,
        )
        for axis in (0, 1)
    )
    rows.div_(255)
    rows, columns = rows.to(images.device), columns.to(images.device).transpose(1, 2)
    wide = torch.bmm(images.to(torch.float32).reshape(items, channels * height, width), columns)
    if interpolation == "bicubic":
        wide.clamp_(0, 255)  # the cubic kernel overshoots; Pillow clips after each axis, width first
    wide = wide.view(items, channels, height, size)
    planes = wide.new_empty(channels, items, size, size)
    for channel in range(channels):
        torch.bmm(rows, wide[:, channel], out=planes[channel])
    return planes.clamp_(0, 1) if interpolation == "bicubic" else planes
