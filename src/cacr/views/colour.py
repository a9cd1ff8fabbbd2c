"""Colour changes of planes, float32 (3, items, pixels) in [0, 1]: one plane per channel, changed in place.

Planes let a step run over long contiguous rows. A step is a few vectorised passes; comparisons and masks are avoided,
because they are slower. After a factor above 1, values must be clamped to [0, 1]. ``scratch`` is memory for temporary
values: one plane (items, pixels), or as stated.
"""

import torch
from torch import Tensor

from cacr.views.draws import BRIGHTNESS, CONTRAST, SATURATION

_LUMA = (0.2989, 0.587, 0.114)  # torchvision's weights for tensors


def luma(planes: Tensor, out: Tensor) -> Tensor:
    """Greyscale of planes (3, items, pixels) into ``out`` (items, pixels); for other channel numbers, their mean."""
    if len(planes) != len(_LUMA):
        return torch.mean(planes, dim=0, out=out)
    red, green, blue = planes.unbind()
    torch.mul(red, _LUMA[0], out=out)
    return out.add_(green, alpha=_LUMA[1]).add_(blue, alpha=_LUMA[2])


def adjust_brightness(planes: Tensor, factor: Tensor, scratch: Tensor) -> None:
    """Brightness, x <- f x, with one factor per item (items, 1)."""
    planes.mul_(factor)


def adjust_contrast(planes: Tensor, factor: Tensor, scratch: Tensor) -> None:
    """Contrast, x <- f x + (1 - f) mean(L(x)), L the luma, with one factor per item (items, 1)."""
    mean = luma(planes.mean(dim=2, keepdim=True), torch.empty_like(factor))
    planes.mul_(factor).add_(mean.mul_(1 - factor))


def adjust_saturation(planes: Tensor, factor: Tensor, scratch: Tensor) -> None:
    """Saturation, x <- f x + (1 - f) L(x), L the luma, with one factor per item (items, 1)."""
    torch.lerp(luma(planes, scratch), planes, factor, out=planes)


ADJUST = {BRIGHTNESS: adjust_brightness, CONTRAST: adjust_contrast, SATURATION: adjust_saturation}


def blend(planes: Tensor, own: Tensor, grey: Tensor, mean: Tensor, scratch: Tensor) -> None:
    """All three in one, x <- own x + grey L(x) + mean avg(L(x)), with coefficients per item (items, 1).

    Brightness by f has the coefficients f, 0, 0, contrast f, 0, 1 - f, and saturation f, 1 - f, 0.
    """
    base = luma(planes, scratch)
    average = base.mean(dim=1, keepdim=True).mul_(mean)
    base.mul_(grey).add_(average)
    torch.addcmul(base, planes, own, out=planes)


def adjust_hue(planes: Tensor, turns: Tensor, scratch: Tensor) -> None:
    """Rotate the colour wheel by a part of a turn in [-0.5, 0.5], per item (items, 1).

    With V and m the largest and smallest channel and C = V - m, the hue in sixths of a turn is
    h = 4 + (1 + (r + g - b - m) / C) sign(r - g). Red of hue h is m + C (clamp(|h mod 6 - 3|, 1, 2) - 1), green is
    red of h - 2, and blue is red of h - 4. It needs three planes of scratch.
    """
    red, green, blue = planes.unbind()
    chroma, smallest, hue = scratch[:3].unbind()
    torch.amin(planes, dim=0, out=smallest)
    torch.amax(planes, dim=0, out=chroma).sub_(smallest)
    torch.add(red, green, out=hue).sub_(blue).sub_(smallest)
    red.sub_(green)
    torch.add(chroma.new_full((), 1e-12), chroma, alpha=6, out=green)  # avoids division by 0 for grey pixels
    torch.addcdiv(hue.new_full((), 1 / 6), hue, green, out=hue).copysign_(red)
    # in turns; made positive before the fraction is taken
    shifts = torch.stack([turns + (1 + sixths / 6) for sixths in (4, 2, 0)])
    torch.add(hue, shifts, out=planes).frac_().sub_(3 / 6).abs_().clamp_(1 / 6, 2 / 6)
    torch.addcmul(smallest.sub_(chroma), chroma, planes, value=6, out=planes)


def solarise(planes: Tensor, threshold: Tensor) -> None:
    """Invert values at or above a threshold, per item (items, 1)."""
    planes.copy_(torch.where(planes >= threshold, 1 - planes, planes))
