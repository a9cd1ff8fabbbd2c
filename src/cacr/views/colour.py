"""Colour jitter, greyscale and solarising on planes, float32 (3, items, pixels) in [0, 1].

Planes let every step run over long contiguous rows. Items that take the same step at the same time stand next
to each other (`program_order`), so a step works on slices, without gathering and without a loop over images.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cacr.views.draws import CONTRAST, HUE, SATURATION, Colours

_LUMA = (0.2989, 0.587, 0.114)  # torchvision's weights for tensors
_NO_HUE, _NO_JITTER = 4, 5


def luma(planes: Tensor) -> Tensor:
    """Greyscale (items, pixels) of planes (3, items, pixels)."""
    red, green, blue = planes.unbind()
    grey = red * _LUMA[0]
    return grey.add_(green, alpha=_LUMA[1]).add_(blue, alpha=_LUMA[2])


def shift_hue(planes: Tensor, turns: Tensor) -> None:
    """Turn the colour wheel, in place.

    With V and m the largest and smallest channel and C = V - m, the hue in sixths of a turn is
    h = 4 - (1 + (r + g - b - m) / C) sign(g - r), and the channels of hue h are
    m + C clamp(|h - 3| - 1), m + C clamp(2 - |h - 2|) and m + C clamp(2 - |h - 4|), with clamp to [0, 1].
    Without comparisons, each step is one pass at full speed.

    Args:
        planes: (3, items, pixels).
        turns: (items, 1) in [-0.5, 0.5].
    """
    red, green, blue = planes
    value = torch.maximum(red, green)
    smallest = torch.minimum(red, green)
    torch.maximum(value, blue, out=value)
    torch.minimum(smallest, blue, out=smallest)
    chroma = value.sub_(smallest)
    hue = (red + green).sub_(blue).sub_(smallest)
    hue.div_((chroma * 6).clamp_min_(1e-12)).add_(1 / 6)
    hue.copysign_(red - green)
    # in turns, and made positive before the fraction is taken
    hue.add_(turns + (4 / 6 + 1)).frac_().mul_(6)
    low = smallest - chroma
    high = smallest.add_(chroma, alpha=2)
    torch.addcmul(low, chroma, (hue - 3).abs_().clamp_(1, 2), out=red)
    torch.addcmul(high, chroma, (hue - 2).abs_().clamp_(1, 2), value=-1, out=green)
    torch.addcmul(high, chroma, (hue - 4).abs_().clamp_(1, 2), value=-1, out=blue)


def blend(planes: Tensor, own: Tensor, grey: Tensor, mean: Tensor) -> None:
    """One linear step of colour jitter, in place: x <- clamp(own x + grey L(x) + mean avg(L(x))), L the luma.

    Brightness by f is (f, 0, 0), contrast (f, 0, 1 - f), saturation (f, 1 - f, 0).

    Args:
        planes: (3, items, pixels).
        own: (items, 1).
        grey: (items, 1).
        mean: (items, 1).
    """
    base = luma(planes)
    average = base.mean(dim=1, keepdim=True).mul_(mean)
    base.mul_(grey).add_(average)
    torch.addcmul(base, planes, own, out=planes).clamp_(0, 1)


@dataclass(frozen=True)
class Program:
    """Colour jitter of items in `program_order`.

    Attributes:
        starts: Item numbers between which the hue step comes after 0, 1, 2, 3 blends, never, and no jitter.
        own: (3 steps, items, 1) coefficients of `blend`.
        grey: Likewise.
        mean: Likewise.
        turns: (items, 1) shift of the hue.
    """

    starts: tuple[int, ...]
    own: Tensor
    grey: Tensor
    mean: Tensor
    turns: Tensor


def _hue_place(colours: Colours) -> Tensor:
    place = (colours.order == HUE).int().argmax(dim=1)
    place = torch.where(colours.factor[:, HUE] == 0, _NO_HUE, place)
    return torch.where(colours.jittered, place, _NO_JITTER)


def program_order(colours: Colours) -> Tensor:
    """(items,) item numbers such that those with the hue step in the same place are neighbours."""
    return _hue_place(colours).argsort(stable=True)


def compile_program(colours: Colours, device: torch.device) -> Program:
    """Colour jitter of ``colours``, which must be in `program_order`, as coefficients on ``device``."""
    place = _hue_place(colours)
    starts = torch.searchsorted(place, torch.arange(_NO_JITTER + 1)).tolist()
    steps = colours.order[colours.order != HUE].view(-1, 3)
    own = colours.factor.gather(1, steps)
    rest = 1 - own
    grey, mean = rest * (steps == SATURATION), rest * (steps == CONTRAST)
    coefficients = torch.stack([own, grey, mean]).float().to(device, non_blocking=True)
    own, grey, mean = coefficients.transpose(1, 2).unsqueeze(3)
    turns = colours.factor[:, HUE, None].float().to(device, non_blocking=True)
    return Program((*starts, len(place)), own, grey, mean, turns)


def jitter(planes: Tensor, program: Program) -> None:
    """Colour jitter in each item's own order, in place."""
    jittered = slice(0, program.starts[_NO_JITTER])
    for step in range(4):
        first, last = program.starts[step], program.starts[step + 1]
        if first < last:
            shift_hue(planes[:, first:last], program.turns[first:last])
        if step < 3 and jittered.stop > 0:
            blend(
                planes[:, jittered],
                program.own[step, jittered],
                program.grey[step, jittered],
                program.mean[step, jittered],
            )


def _where(mask: Tensor) -> Tensor:
    return mask.nonzero().squeeze(1)


def to_grey(planes: Tensor, grey: Tensor) -> None:
    """Make the items of the mask ``grey`` (items,) grey, in place."""
    index = _where(grey)
    if len(index):
        index = index.to(planes.device)
        planes[:, index] = luma(planes[:, index])


def solarise(planes: Tensor, threshold: Tensor) -> None:
    """Invert values at or above each item's ``threshold`` (items,), infinite for none, in place."""
    index = _where(threshold < math.inf)
    if len(index):
        index, threshold = index.to(planes.device), threshold[index].float().to(planes.device)
        chosen = planes[:, index]
        planes[:, index] = torch.where(chosen >= threshold[:, None], 1 - chosen, chosen)
