"""Find near-duplicates: images with almost the same pixels, in any size, format and compression."""

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
"""Number of nearest images that are checked: for any encoder, a duplicate is among them."""

ALIKE = 0.5
"""Images with a smaller cosine are not compared by pixels."""


@dataclass(frozen=True)
class Copies:
    """Near-duplicates, in groups.

    Attributes:
        copies: (m,) images that can be removed.
        kept: (m,) the image of the same group to keep.
        correlation: (m,) pixel correlation of the two if they were compared, else of the copy and its nearest
            relative.
    """

    copies: Indices
    kept: Indices
    correlation: NDArray[np.float64]


def find_copies(found: Collection, threshold: float, progress: Progress | None = None) -> Copies:
    """Groups of near-duplicates; the largest image of each group is kept (the first one, if several are equal).

    Two images are near-duplicates if one is among the nearest of the other by features, and their pixels, resized to
    32 x 32, have a correlation of at least ``threshold``. Near-duplicates of near-duplicates are in the same group.
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
    """(p, 2) pairs of near images, each once, the smaller number first."""
    cosine, number = neighbours.of_all(NEIGHBOURS, progress)
    near = cosine >= ALIKE
    first = np.broadcast_to(np.arange(len(number))[:, None], tuple(number.shape))[near.numpy()]
    pairs = np.stack([first, number.numpy()[near.numpy()]], axis=1)
    return np.unique(np.sort(pairs, axis=1), axis=0)


def _pixels(source: Source, image: int) -> int:
    """Number of pixels of an image file, from its header; the same for all images of an array."""
    with suppress(UserError, OSError):
        if isinstance(source, FileSource):
            with open_image(source.paths[image], source.describe(image)) as opened:
                return opened.width * opened.height
    return 0


def _none() -> Copies:
    empty: Sequence[int] = ()
    return Copies(np.array(empty, dtype=np.int64), np.array(empty, dtype=np.int64), np.empty(0))
