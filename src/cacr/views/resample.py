"""Crop, antialiased resize and flip of a batch as two small matrix products per image."""

import torch
from torch import Tensor

from cacr.views.augmentation import Interpolation
from cacr.views.draws import Crops
from cacr.views.workspace import Workspace


def filter_weights(
    start: Tensor,
    extent: Tensor,
    low: Tensor,
    high: Tensor,
    reverse: Tensor,
    interpolation: Interpolation,
    out: Tensor,
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
        reverse: (items,) bool, output pixels from last to first.
        interpolation: The kernel.
        out: (items, size, length) float32, for the result.
    """
    _, size, length = out.shape
    scale = (extent / size)[:, None]
    steps = torch.arange(size) + 0.5
    steps = torch.where(reverse[:, None], size - steps, steps)
    centre = (start[:, None] + steps * scale - 0.5).float().to(out.device, non_blocking=True)
    width = scale.clamp_min(1).float().to(out.device, non_blocking=True)
    pixel = torch.arange(length)
    inside = ((pixel >= low[:, None]) & (pixel < high[:, None])).float().to(out.device, non_blocking=True)
    distance = torch.sub(pixel.to(out.device), centre[:, :, None], out=out).abs_()
    # either kernel up to a constant factor, which the normalisation removes
    if interpolation == "bicubic":
        out.copy_(_cubic(distance.div_(width[:, :, None])))
    else:
        distance.sub_(width[:, :, None]).clamp_max_(0)
    out.mul_(inside[:, None, :])
    return out.div_(out.sum(dim=2, keepdim=True))


def _cubic(x: Tensor) -> Tensor:
    # Keys' kernel, a = -1/2, x >= 0: 1.5 x^3 - 2.5 x^2 + 1 up to 1, -0.5 x^3 + 2.5 x^2 - 4 x + 2 up to 2
    near = ((1.5 * x - 2.5) * x * x + 1) * (x <= 1)
    far = (((-0.5 * x + 2.5) * x - 4) * x + 2) * ((x > 1) & (x < 2))
    return near + far


def crop_resize(
    images: Tensor, crops: Crops, size: int, interpolation: Interpolation, workspace: Workspace
) -> Tensor:
    """Each image's window, resized, flipped and scaled to [0, 1].

    Args:
        images: uint8 (items, 3, height, width).
        crops: The windows, one per image, on the CPU.
        size: Side of the output.
        interpolation: Filter of the resize.
        workspace: For temporary values and for the result, which is valid until the next call with it.

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
            reverse=crops.flip if axis else torch.zeros_like(crops.flip),
            interpolation=interpolation,
            out=workspace(f"weights {axis}", items, size, length),
        )
        for axis, length in enumerate((height, width))
    )
    rows.div_(255)
    pixels = workspace("pixels", *images.shape).copy_(images)
    wide = workspace("wide", items, channels * height, size)
    torch.bmm(pixels.view(items, channels * height, width), columns.transpose(1, 2), out=wide)
    if interpolation == "bicubic":
        wide.clamp_(0, 255)  # the cubic kernel overshoots; Pillow clips after each axis, width first
    planes = workspace("planes", channels, items, size, size)
    for channel in range(channels):
        torch.bmm(rows, wide.view(items, channels, height, size)[:, channel], out=planes[channel])
    return planes.clamp_(0, 1) if interpolation == "bicubic" else planes
