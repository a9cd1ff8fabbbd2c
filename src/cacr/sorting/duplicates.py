"""Near-duplicates: images whose pixels are all but the same, whatever their size, format and compression."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cacr.data import FileSource, Source
from cacr.data.pixels import correlation, linked, thumbnails
from cacr.data.prepare import Progress
from cacr.data.source import Indices
from cacr.decode import open_image
from cacr.errors import UserError
from cacr.features.collection import Collection
from cacr.features.index import Neighbours

NEIGHBOURS = 10
"""Nearest images of each that are looked at: a copy is among them, whatever the encoder has learned."""

ALIKE = 0.5
"""Cosine below which two images are not compared pixel by pixel."""


@dataclass(frozen=True)
class Copies:
    """Images that are near-duplicates of others, group by group.

    Attributes:
        copies: (m,) images that can be thrown away.
        kept: (m,) the image of the same group that is kept.
        correlation: (m,) of the pixels of the two, where they were compared; else of the copy and its nearest relative.
    """

    copies: Indices
    kept: Indices
    correlation: NDArray[np.float64]


def find_copies(found: Collection, threshold: float, progress: Progress | None = None) -> Copies:
    """Groups of near-duplicates among images; of each group the largest image is kept, or the first of the largest.

    Two images are near-duplicates if one is among the nearest of the other by features, and their pixels, shrunk to
    32 x 32, correlate by ``threshold`` or more. Near-duplicates of near-duplicates are of one group.
    """
    pairs = _candidates(Neighbours(found.vectors), progress)
    if not len(pairs):
        return _none()
    images = np.unique(pairs)
    pixels = thumbnails(found.source, images.tolist())
    place = np.searchsorted(images, pairs)
    alike = correlation(pixels[place[:, 0]], pixels[place[:, 1]])
    close = alike >= threshold
    pairs, alike = pairs[close], alike[close]
    if not len(pairs):
        return _none()
    group = linked(pairs, len(found))
    strongest: dict[int, float] = {}
    for (a, b), value in zip(pairs.tolist(), alike.tolist(), strict=True):
        for image in (a, b):
            strongest[image] = max(value, strongest.get(image, -1.0))
    copies, kept = [], []
    members = np.array(sorted(strongest))
    for number in np.unique(group[members]):
        own = members[group[members] == number].tolist()
        best = max(own, key=lambda image: (_pixels(found.source, image), -image))
        copies += [image for image in own if image != best]
        kept += [best] * (len(own) - 1)
    values = np.array([strongest[image] for image in copies])
    return Copies(np.array(copies, dtype=np.int64), np.array(kept, dtype=np.int64), values)


def _candidates(neighbours: Neighbours, progress: Progress | None) -> Indices:
    """(p, 2) pairs of near images, the smaller number first, each once."""
    cosine, number = neighbours.of_all(NEIGHBOURS, progress)
    near = cosine >= ALIKE
    first = np.broadcast_to(np.arange(len(number))[:, None], tuple(number.shape))[near.numpy()]
    pairs = np.stack([first, number.numpy()[near.numpy()]], axis=1)
    return np.unique(np.sort(pairs, axis=1), axis=0)


def _pixels(source: Source, image: int) -> int:
    """Pixels of an image file, from its header; of arrays all images have the same."""
    with suppress(UserError, OSError):
        if isinstance(source, FileSource):
            with open_image(source.paths[image], source.describe(image)) as opened:
                return opened.width * opened.height
    return 0


def _none() -> Copies:
    empty: Sequence[int] = ()
    return Copies(np.array(empty, dtype=np.int64), np.array(empty, dtype=np.int64), np.empty(0))
