"""Draw a few examples per class, and split them for training and validation, as the ELEVATER benchmark does.

Labels are (n,) classes, or (n, classes) of zeros and ones if an image may show several.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cacr.data.source import Indices
from cacr.errors import UserError
from cacr.files import printable

VALIDATION = 0.2
"""Share of each class, rounded up, that is used for validation in the search."""

_SHOWN = 5  # number of classes named in a message


def draw_shots(
    labels: NDArray[np.generic],
    classes: int,
    count: int,
    seed: int,
    class_names: Sequence[str] | None = None,
) -> Indices:
    """``count`` images per class, in the order in which they were drawn.

    The images are shuffled with the seed. In this order, an image is taken if one of its classes still needs images.
    If an image shows several classes, some classes may get more than ``count``.

    Args:
        labels: Labels of the images to draw from.
        classes: Number of classes.
        count: Images per class.
        seed: Seed of the draw.
        class_names: For the message.

    Raises:
        UserError: names every class that has fewer.
    """
    shown = indicator(labels, classes)
    available = shown.sum(axis=0)
    short = np.flatnonzero(available < count)
    if len(short):
        named = ", ".join(
            f"{printable(class_names[c]) if class_names else f'class {c}'} ({available[c]})"
            for c in short[:_SHOWN]
        )
        more = f" and {len(short) - _SHOWN:,} more" if len(short) > _SHOWN else ""
        largest = int(available.min())
        hint = f"choose at most {largest}" if largest >= 2 else "give these classes more images"
        raise UserError(
            f"{len(short):,} of {classes:,} classes have fewer than labels_per_class = {count} training images: "
            f"{named}{more}; {hint}"
        )
    taken, chosen = np.zeros(classes, dtype=np.int64), []
    for index in np.random.default_rng(seed).permutation(len(shown)):
        if (taken[shown[index]] < count).any():
            taken += shown[index]
            chosen.append(index)
    return np.array(chosen, dtype=np.int64)


def divide(labels: NDArray[np.generic], classes: int) -> tuple[Indices, Indices]:
    """Split images for training and validation: the first fifth of each class, rounded up, is for validation.

    Raises:
        UserError: nothing would be left to train on.
    """
    shown = indicator(labels, classes)
    needed = np.ceil(VALIDATION * shown.sum(axis=0) - 1e-9)
    judging, taken = np.zeros(len(shown), dtype=bool), np.zeros(classes, dtype=np.int64)
    for index, row in enumerate(shown):
        if (taken[row] < needed[row]).any():
            judging[index] = True
            taken += row
    if judging.all():
        raise UserError("no class has more than one training image, so none is left for validation")
    return np.flatnonzero(~judging), np.flatnonzero(judging)


def indicator(labels: NDArray[np.generic], classes: int) -> NDArray[np.bool_]:
    """(n, classes) which classes an image shows."""
    shown: NDArray[np.bool_] = labels != 0 if labels.ndim == 2 else labels[:, None] == np.arange(classes)
    return shown
