"""``cacr select``: which images to label first, which to check, which to remove."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cacr.data.pixels import DUPLICATE
from cacr.data.prepare import Progress
from cacr.data.source import Indices
from cacr.errors import UserError
from cacr.features.clusters import means_of
from cacr.features.collection import Collection
from cacr.features.index import Neighbours
from cacr.features.neighbours import vote
from cacr.randomness import numpy_generator
from cacr.registry import Registry
from cacr.sorting.duplicates import find_copies

NUMBER = 100
"""Default number of selected images."""

TYPICAL_NEIGHBOURS, OUTLIER_NEIGHBOURS, VOTERS = 20, 10, 20
"""Number of nearest images for typicality, density and disagreement."""

TEMPERATURE = 0.07
"""Temperature of the neighbours' votes, as in the kNN protocol."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Selection:
    """Selected images, the best first.

    Attributes:
        by: The way to select.
        chosen: (m,) their numbers.
        score: (m,) score of each image; see ``meaning``.
        meaning: Description of the score.
        kept: (m,) for duplicates, the image of the same group to keep; otherwise None.
    """

    by: str
    chosen: Indices
    score: Floats
    meaning: str
    kept: Indices | None = None


@dataclass(frozen=True)
class Wish:
    """Parameters of a selection.

    Attributes:
        number: Largest number of images to select; None for all.
        seed: Seed of random draws.
        threshold: Images are duplicates if their pixels correlate at least this much.
        progress: Called with the finished and the total amount of work.
    """

    number: int | None = None
    seed: int = 0
    threshold: float = DUPLICATE
    progress: Progress | None = None


Way = Callable[[Collection, Wish], Selection]
WAYS: Registry[Way] = Registry("way to select")


def select_images(
    found: Collection,
    *,
    by: str = "typical",
    number: int | None = None,
    threshold: float = DUPLICATE,
    seed: int = 0,
    progress: Progress | None = None,
) -> Selection:
    """Select images of a collection.

    Labelled images are not selected again, and images near them count as covered. ``outliers`` and ``duplicates`` use
    all images.

    Args:
        found: The images.
        by: A name in :data:`WAYS`.
        number: Number of images to select; default: 100, or all duplicates.
        threshold: Images are duplicates if their pixels correlate at least this much.
        seed: Seed of random draws.
        progress: Called with the finished and the total amount of work.

    Raises:
        UserError: the way does not exist, or the images lack what it needs.
    """
    way = WAYS[by]
    if number is not None and number < 1:
        raise UserError(f"number must be at least 1 (got {number})")
    if not -1 <= threshold <= 1:
        raise UserError(f"threshold is a correlation, from -1 to 1 (got {threshold})")
    if number is None and by != "duplicates":
        number = NUMBER
    selection = way(found, Wish(number, seed, threshold, progress))
    kept = None if selection.kept is None else selection.kept[:number]
    return replace(selection, chosen=selection.chosen[:number], score=selection.score[:number], kept=kept)


@WAYS.register("coverage")
def coverage(found: Collection, wish: Wish) -> Selection:
    """Cover all images: each image is the one farthest from those selected before (k-centre)."""
    return _spread(found, wish, "coverage", lambda distance: int(distance.argmax()))


@WAYS.register("k-means++")
def k_means_plus_plus(found: Collection, wish: Wish) -> Selection:
    """Cover all images, at random: the probability of an image grows with its squared distance from those before."""
    rng = numpy_generator("k-means++", wish.seed)

    def draw(distance: Tensor) -> int:
        share = distance.double().square().numpy()
        return int(rng.choice(len(share), p=share / share.sum())) if share.sum() > 0 else int(share.argmax())

    return _spread(found, wish, "k-means++", draw)


def _spread(found: Collection, wish: Wish, by: str, choose: Callable[[Tensor], int]) -> Selection:
    """Select image by image; ``choose`` gets the distance of each from the nearest selected or labelled image."""
    x = found.vectors
    labelled = _labelled(found)
    number_to_select = min(wish.number or len(x), len(x) - len(labelled))
    chosen: list[int] = []
    score: list[float] = []
    if len(labelled):
        distance = _distance(Neighbours(x[torch.from_numpy(labelled)]).nearest(x, 1)[0][:, 0])
    else:  # the first image: the one most similar to all others
        chosen.append(int((x @ x.mean(dim=0)).argmax()))
        distance = _distance(x @ x[chosen[0]])
        score.append(float(distance.max()))
    distance[torch.from_numpy(labelled)] = -1.0
    while len(chosen) < number_to_select:
        distance[chosen] = -1.0
        number = choose(distance.clamp(min=0))
        if distance[number] < 0:  # only duplicates of selected images are left: take any
            number = int(distance.argmax())
        score.append(float(distance[number]))
        chosen.append(number)
        distance = torch.minimum(distance, _distance(x @ x[number]))
        if wish.progress is not None:
            wish.progress(len(chosen), number_to_select)
    return Selection(by, _numbers(chosen), np.array(score), "distance from the nearest image before it")


@WAYS.register("typical")
def typical(found: Collection, wish: Wish) -> Selection:
    """The most typical image of each cluster, the largest cluster first (TypiClust)."""
    x, labelled = found.vectors, _labelled(found)
    number_to_select = min(wish.number or len(x), len(x) - len(labelled))
    group = means_of(
        x.numpy(), min(number_to_select + len(labelled), len(x)), seed=wish.seed, progress=wish.progress
    ).groups
    free = np.ones(len(x), dtype=bool)
    free[labelled] = False
    covered = np.bincount(group[labelled], minlength=int(group.max()) + 1) > 0
    size = np.bincount(group, minlength=len(covered))
    density = np.empty(len(x))
    for number in np.flatnonzero(size):
        own = np.flatnonzero(group == number)
        density[own] = _typicality(x[torch.from_numpy(own)])
    # Clusters without a label first, the largest of them first; then the next image of each cluster, and so on.
    order = sorted(np.flatnonzero(size), key=lambda number: (covered[number], -size[number]))
    queues = [iter(_ranked(np.flatnonzero((group == number) & free), density)) for number in order]
    chosen: list[int] = []
    while len(chosen) < number_to_select:
        chosen += [image for queue in queues for image in [next(queue, None)] if image is not None]
    numbers = _numbers(chosen[:number_to_select])
    return Selection(
        "typical", numbers, density[numbers], "typicality: 1 / mean distance from its neighbours"
    )


@WAYS.register("outliers")
def outliers(found: Collection, wish: Wish) -> Selection:
    """Images far from all others: the largest mean distance from their ten nearest images first."""
    cosine, _ = Neighbours(found.vectors).of_all(OUTLIER_NEIGHBOURS, wish.progress)
    lonely = _distance(cosine).mean(dim=1).double().numpy()
    order = np.argsort(-lonely, kind="stable")
    return Selection("outliers", order, lonely[order], "mean distance from its ten nearest images")


@WAYS.register("duplicates")
def duplicates(found: Collection, wish: Wish) -> Selection:
    """Duplicates: all near-duplicates except one per group, the one with the most pixels."""
    copies = find_copies(found, wish.threshold, wish.progress)
    return Selection(
        "duplicates", copies.copies, copies.correlation, "correlation of pixels with a copy", copies.kept
    )


@WAYS.register("uncertain")
def uncertain(found: Collection, wish: Wish) -> Selection:
    """Images whose nearest labelled images disagree most, by the entropy of their votes."""
    where, labels, names = found.labelled()
    if len(names) < 2:
        raise UserError(f"all labels are {names[0]!r}: uncertain needs labels of at least two classes")
    rows = torch.from_numpy(where)
    cosine, near = Neighbours(found.vectors[rows]).nearest(found.vectors, VOTERS)
    votes = vote(cosine, torch.from_numpy(labels)[near], classes=len(names), temperature=TEMPERATURE).double()
    entropy = -(votes * votes.clamp(min=1e-300).log()).sum(dim=1)
    entropy[rows] = -1.0
    order = np.argsort(-entropy.numpy(), kind="stable")[: len(found) - len(where)]
    return Selection("uncertain", order, entropy.numpy()[order], "entropy of its neighbours' votes, in nats")


def _labelled(found: Collection) -> Indices:
    """Images that need no label: those with a label, if others have none."""
    if found.known is None or len(found.known.where) == len(found):
        return _numbers([])
    return found.known.where


def _typicality(x: Tensor) -> Floats:
    """(n,) 1 / mean distance of each unit vector from its nearest others."""
    if len(x) == 1:
        return np.zeros(1)
    cosine, _ = Neighbours(x).of_all(TYPICAL_NEIGHBOURS)
    return 1 / (_distance(cosine).mean(dim=1).double().numpy() + 1e-6)


def _ranked(images: Indices, density: Floats) -> list[int]:
    order: list[int] = images[np.argsort(-density[images], kind="stable")].tolist()
    return order


def _distance(cosine: Tensor) -> Tensor:
    """Euclidean distance of unit vectors."""
    return (2 - 2 * cosine).clamp(min=0).sqrt()


def _numbers(images: list[int]) -> Indices:
    return np.array(images, dtype=np.int64)
