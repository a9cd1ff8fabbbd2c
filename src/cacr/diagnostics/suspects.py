"""Pairs of images that a person should check when cleaning the data."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cacr.data.source import Indices
from cacr.diagnostics.relations import Related

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ImagePairs:
    """Pairs of images, the strongest first.

    Attributes:
        index: (p, 2) numbers of the images, the smaller first.
        value: (p,) strength.
    """

    index: Indices
    value: Floats

    def where(self, chosen: NDArray[np.bool_]) -> "ImagePairs":
        """The pairs selected by a mask (p,)."""
        return ImagePairs(self.index[chosen], self.value[chosen])


def pairs_of(related: Related) -> ImagePairs:
    """Each unordered pair once, with the larger of its two values, the largest value first."""
    first = np.repeat(np.arange(len(related.index)), related.index.shape[1])
    second = related.index.numpy().ravel()
    value = related.value.numpy().astype(np.float64).ravel()
    both = np.sort(np.stack([first, second], axis=1), axis=1)
    order = np.lexsort((both[:, 1], both[:, 0], -value))
    _, kept = np.unique(both[order], axis=0, return_index=True)
    kept = order[np.sort(kept)]
    return ImagePairs(both[kept], value[kept])


def agree(pairs: ImagePairs, neighbours: Related) -> NDArray[np.bool_]:
    """(p,) whether the two images of each pair are among each other's neighbours."""
    index = neighbours.index.numpy()
    a, b = pairs.index.T
    mutual: NDArray[np.bool_] = (index[a] == b[:, None]).any(1) & (index[b] == a[:, None]).any(1)
    return mutual


def among(pairs: ImagePairs, others: ImagePairs) -> NDArray[np.bool_]:
    """(p,) whether each pair is one of the others."""
    known = {(a, b) for a, b in others.index.tolist()}
    return np.array([(a, b) in known for a, b in pairs.index.tolist()], dtype=bool)


def one_each(pairs: ImagePairs, count: int) -> ImagePairs:
    """The strongest ``count`` pairs, with each image at most once, so that one odd image cannot fill the list."""
    seen: set[int] = set()
    chosen = np.zeros(len(pairs.index), dtype=bool)
    for number, (a, b) in enumerate(pairs.index.tolist()):
        if a not in seen and b not in seen:
            chosen[number] = True
            seen |= {a, b}
            if len(seen) == 2 * count:
                break
    return pairs.where(chosen)
