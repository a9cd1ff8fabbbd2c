"""Split labelled images into training and test images, by a seed."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cacr.data.source import Indices
from cacr.errors import UserError
from cacr.files import printable

Labels = NDArray[np.int64]

HELD_OUT = 0.2
"""Share of each class for testing, if the data has no test part."""


def stratified_split(labels: Labels, share: float, seed: int) -> tuple[Indices, Indices]:
    """Split images into two parts with the same share of each class.

    Args:
        labels: (N,) classes.
        share: Share of each class that goes to the second part, rounded. A class of two or more images has at least
            one image in both parts; a single image stays in the first part.
        seed: Seed of the draw.

    Returns:
        Sorted indices of the first and of the second part.
    """
    generator = np.random.default_rng(seed)
    second = []
    for members in _by_class(labels):
        count = min(max(1, round(share * len(members))), len(members) - 1)
        second.append(generator.permutation(members)[:count])
    chosen = np.sort(np.concatenate(second))
    return np.setdiff1d(np.arange(len(labels)), chosen), chosen


def draw_per_class(
    labels: Labels, count: int, seed: int, class_names: Sequence[str] | None = None
) -> Indices:
    """Sorted indices of ``count`` images per class.

    Args:
        labels: (N,) classes.
        count: Images per class.
        seed: Seed of the draw.
        class_names: For the message.

    Raises:
        UserError: a class has fewer.
    """
    classes = _by_class(labels)
    smallest = min(classes, key=len)
    if len(smallest) < count:
        label = int(labels[smallest[0]])
        name = printable(class_names[label]) if class_names else label
        raise UserError(
            f"class {name} has only {len(smallest)} labelled images, fewer than "
            f"labels_per_class = {count}; choose at most {len(smallest)}"
        )
    generator = np.random.default_rng(seed)
    return np.sort(np.concatenate([generator.permutation(members)[:count] for members in classes]))


def folds(labels: Labels, count: int, seed: int) -> NDArray[np.int64]:
    """(N,) the fold of each image, from 0 to ``count - 1``; every class is divided evenly between the folds."""
    generator = np.random.default_rng(seed)
    # Each class continues where the previous one ended, so that folds have equal sizes even with few images per class.
    order = np.concatenate([generator.permutation(members) for members in _by_class(labels)])
    number = np.empty(len(labels), dtype=np.int64)
    number[order] = np.arange(len(labels)) % count
    return number


def _by_class(labels: Labels) -> list[Indices]:
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]
