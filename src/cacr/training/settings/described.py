"""Properties of data that settings depend on, found out from a few images."""

from contextlib import suppress
from typing import NamedTuple, Self

import numpy as np
import torch

from cacr.data import Source, class_fractions, is_grey, most_captions
from cacr.errors import UnreadableImageError, UserError
from cacr.training.settings.rules import DEFAULT_SIZES

SAMPLE = 32
"""Number of images that are opened to find out their size, and whether they have colours."""

SMALLEST_STD = 2e-4
"""Smallest standard deviation of a channel, in [0, 1]: avoids division by zero for a constant channel."""


class Described(NamedTuple):
    """Properties of data that settings depend on.

    Attributes:
        name: name for messages.
        images: number of images to train on.
        side: shorter side of most images, in pixels.
        in_memory: whether images are arrays, which need no decoding.
        held_out: number of images that are held out from training.
        measured: number of images of the diagnostics.
        grey: whether none of the opened images has colours.
        captions: largest number of captions of an image; 0 without captions.
        channels: number of channels.
        mean: mean per channel, in [0, 1], of the opened images; empty for RGB images, which use that of the preset.
        std: standard deviation per channel.
        classes: number of classes of equal size, if known without the data; 0 if unknown.
    """

    name: str
    images: int
    side: int
    in_memory: bool
    held_out: int = 0
    measured: int = 0
    grey: bool = False
    captions: int = 0
    channels: int = 3
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    classes: int = 0

    def imbalanced(self, rule: str) -> Self:
        """The data after an imbalance rule.

        Raises:
            UserError: the classes are not known.
        """
        if rule == "none":
            return self
        if not self.classes:
            raise UserError(f"imbalance needs labels, and those of {self.name} are not known: give the data")
        each = self.images // self.classes
        return self._replace(images=sum(int(share * each) for share in class_fractions(rule, self.classes)))


def describe(source: Source, *, held_out: int = 0, measured: int = 0) -> Described:
    """Open a few of the training images and describe them."""
    sides, grey, seen = [], True, []
    for index in np.unique(np.linspace(0, len(source) - 1, min(SAMPLE, len(source))).astype(int)):
        with suppress(UnreadableImageError):  # unreadable images are counted when the data is prepared
            image = source.read(int(index))
            sides.append(min(image.size))
            grey = grey and is_grey(image)  # skips the check after the first colour image
            if source.deep:
                pixels = source.read_pixels(int(index)).flatten(1) / 255
                seen.append(torch.stack([pixels.mean(dim=1), pixels.square().mean(dim=1)]))
    side = int(np.median(sides or [DEFAULT_SIZES[0]]))
    in_memory = source.image_size is not None
    mean, std = _statistics(seen)
    return Described(
        source.name,
        len(source),
        side,
        in_memory,
        held_out,
        measured,
        grey and bool(sides),
        most_captions(source),
        source.channels,
        mean,
        std,
    )


def _statistics(seen: list[torch.Tensor]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel, from the means of each image and of its squares, (2, channels) each."""
    if not seen:
        return (), ()
    mean, square = torch.stack(seen).double().mean(dim=0)
    std = (square - mean**2).clamp(min=SMALLEST_STD**2).sqrt()
    return tuple(float(f"{value:.4g}") for value in mean), tuple(float(f"{value:.4g}") for value in std)
