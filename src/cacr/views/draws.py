"""Random parameters, one row per item (a view of an image), drawn on the CPU from an explicit generator."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cacr.views.augmentation import Augmentation

Array = NDArray[np.float64]

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)
_ATTEMPTS = 10  # as in torchvision: tries for a crop that fits, then a central one


class Rows:
    """Tensors with one row per item each."""

    def take(self, index: Tensor) -> Self:
        """The items of ``index``, in this order."""
        return type(self)(*(value[index] for value in vars(self).values()))

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """The items of all parts, one part after the other."""
        if len(parts) == 1:
            return parts[0]
        return cls(*(torch.cat(values) for values in zip(*(vars(p).values() for p in parts), strict=True)))


@dataclass(frozen=True)
class Crops(Rows):
    """The crop of each item: a window of the image that fills the view.

    Attributes:
        start: (items, 2) first row and column of the window, in pixels of the image.
        extent: (items, 2) its height and width.
        low: (items, 2) first row and column that the resize filter may read: that of the window for a crop that is
            resized afterwards, 0 for a resized image that is cropped afterwards.
        high: (items, 2) one past the last row and column that it may read.
        flip: (items,) bool, flipped from left to right.
        turn: (items,) quarter turns after the flip, counter-clockwise as in ``numpy.rot90``: 0 to 3.
    """

    start: Tensor
    extent: Tensor
    low: Tensor
    high: Tensor
    flip: Tensor
    turn: Tensor


@dataclass(frozen=True)
class Colours(Rows):
    """The colour changes of each item.

    Attributes:
        jittered: (items,) bool.
        order: (items, 4) the parts of colour jitter (``BRIGHTNESS`` ...) in the order they are applied.
        factor: (items, 4) their factors, by part: 1, 1, 1, 0 change nothing.
        grey: (items,) bool.
        sigma: (items,) sigma of the blur; 0 for none.
        radius: (items,) kernel pixels of the blur on each side of the centre.
        threshold: (items,) solarising inverts values from this one on; infinite for none.
    """

    jittered: Tensor
    order: Tensor
    factor: Tensor
    grey: Tensor
    sigma: Tensor
    radius: Tensor
    threshold: Tensor


def _uniform(shape: tuple[int, ...], low: float, high: float, generator: torch.Generator) -> Tensor:
    # float64, so that no number below 1 is rounded to 1 when it is scaled to a pixel position
    return torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low


def _coin(items: int, probability: float, generator: torch.Generator) -> Tensor:
    return _uniform((items,), 0, 1, generator) < probability


def _groups(run: Sequence[Augmentation], images: int) -> list[tuple[Augmentation, int]]:
    # equal neighbours share one call, because a call costs the same for one view as for ten
    return [(view, images * len(list(views))) for view, views in groupby(run)]


def draw_crops(
    run: Sequence[Augmentation], images: int, height: int, width: int, generator: torch.Generator
) -> Crops:
    """Crops of all views of ``images`` images of one size (height, width), view by view."""
    groups = _groups(run, images)
    return Crops.join([_draw_crops(view, items, height, width, generator) for view, items in groups])


def _draw_crops(view: Augmentation, items: int, height: int, width: int, generator: torch.Generator) -> Crops:
    # in NumPy, whose calls are cheaper: loader workers draw for one image at a time
    drawn = torch.rand((items, 2 * _ATTEMPTS + 3), generator=generator, dtype=torch.float64).numpy()
    if view.scale is None:
        start, extent = _centre_windows(view, items, height, width)
        low, high = np.zeros((items, 2)), np.tile([float(height), float(width)], (items, 1))
    else:
        start, extent = _random_windows(view, drawn, height, width)
        low, high = start, start + extent
    flip, turn = _orientations(view, drawn[:, -1])
    return Crops(
        start=torch.from_numpy(start),
        extent=torch.from_numpy(extent),
        low=torch.from_numpy(low),
        high=torch.from_numpy(high),
        flip=torch.from_numpy(flip),
        turn=torch.from_numpy(turn),
    )


def _orientations(view: Augmentation, drawn: Array) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Flips and quarter turns, (items,), from one number in [0, 1) each; all eight equally likely if not upright."""
    if view.upright:
        return drawn < view.flip, np.zeros(len(drawn), dtype=np.int64)
    eighth = (8 * drawn).astype(np.int64)
    return eighth < 4, eighth % 4


def _random_windows(view: Augmentation, drawn: Array, height: int, width: int) -> tuple[Array, Array]:
    """Start and extent, (items, 2), from numbers in [0, 1): areas, ratios and a position."""
    assert view.scale is not None
    smallest, largest = (height * width * share for share in view.scale)
    narrow, wide = view.ratio
    area = smallest + (largest - smallest) * drawn[:, :_ATTEMPTS]
    ratio = narrow * (wide / narrow) ** drawn[:, _ATTEMPTS : 2 * _ATTEMPTS]
    h, w = np.rint(np.sqrt(area / ratio)), np.rint(np.sqrt(area * ratio))
    fits = (h > 0) & (h <= height) & (w > 0) & (w <= width)
    first = np.arange(len(drawn)), fits.argmax(axis=1)
    extent = np.stack([h[first], w[first]], axis=1)
    start = np.floor(drawn[:, 2 * _ATTEMPTS : 2 * _ATTEMPTS + 2] * (np.array([height, width]) - extent + 1))
    lost = ~fits[first]
    if lost.any():  # no attempt fits: use the largest central crop with an allowed ratio
        central = min(max(width / height, narrow), wide)
        extent[lost] = min(height, round(width / central)), min(width, round(height * central))
        start[lost] = (np.array([height, width]) - extent[lost]) // 2
    return start, extent


def _centre_windows(view: Augmentation, items: int, height: int, width: int) -> tuple[Array, Array]:
    """Start and extent, (items, 2)."""
    assert view.resize is not None
    long = int(view.resize * max(height, width) / min(height, width))
    resized = (view.resize, long) if height <= width else (long, view.resize)
    scale = np.array([height / resized[0], width / resized[1]])
    start = np.array([round((side - view.size) / 2) for side in resized])
    return np.tile(start * scale, (items, 1)), np.tile(view.size * scale, (items, 1))


def draw_colours(run: Sequence[Augmentation], images: int, generator: torch.Generator) -> Colours:
    """The colour changes of all views of ``images`` images, view by view."""
    return Colours.join([_draw_colours(view, items, generator) for view, items in _groups(run, images)])


def _draw_colours(view: Augmentation, items: int, generator: torch.Generator) -> Colours:
    strengths = (view.brightness, view.contrast, view.saturation)
    ranges = [(max(0.0, 1 - s), 1 + s) for s in strengths] + [(-view.hue, view.hue)]
    low, high = torch.tensor(ranges, dtype=torch.float64).T
    jittered = _coin(items, view.jitter, generator)
    order = _uniform((items, 4), 0, 1, generator).argsort(dim=1)
    factor = low + (high - low) * _uniform((items, 4), 0, 1, generator)
    grey = _coin(items, view.grey, generator)
    blurred = _coin(items, view.blur, generator)
    sigma = _uniform((items,), *view.blur_sigma, generator)
    solarised = _coin(items, view.solarise, generator)
    return Colours(
        jittered=jittered,
        order=order,
        factor=factor,
        grey=grey,
        sigma=torch.where(blurred, sigma, 0.0),
        radius=torch.full((items,), view.blur_kernel // 2),
        threshold=torch.where(solarised, view.threshold, math.inf),
    )
