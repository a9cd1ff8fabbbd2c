"""``cacr group``: groups of similar images, named by their labels if there are any."""

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cacr.data.prepare import Progress
from cacr.data.source import Indices
from cacr.errors import UserError
from cacr.features.clusters import choose_number, means_of, silhouette
from cacr.features.collection import Collection


@dataclass(frozen=True)
class Group:
    """Similar images.

    Attributes:
        name: ``group 3``, or the most frequent class of its labelled images.
        images: Their numbers, those nearest to the centre of the group first.
        similarity: Their cosine with the centre of the group.
        labelled: Number of images with a label.
        agreeing: Number of images with the label that the group is named after.
    """

    name: str
    images: Indices
    similarity: NDArray[np.float32]
    labelled: int = 0
    agreeing: int = 0


@dataclass(frozen=True)
class Groups:
    """Groups of images, the largest first.

    Attributes:
        groups: Groups of at least one image; every image is in one group.
        silhouette: How clearly the groups are separated, from -1 to 1; below 0.1 there are no clear groups.
        chosen: Whether the number of groups was chosen automatically.
    """

    groups: tuple[Group, ...]
    silhouette: float
    chosen: bool


def group_images(
    found: Collection,
    *,
    number: int | Literal["auto"] = "auto",
    seed: int = 0,
    progress: Progress | None = None,
) -> Groups:
    """Divide the images of a collection into groups, by k-means on their vectors.

    Args:
        found: The images.
        number: Number of groups; ``auto``: the number from 2 to 64 with the largest silhouette.
        seed: Seed of the first centres.
        progress: Called with the finished and the total amount of work.

    Raises:
        UserError: there are fewer images than groups.
    """
    vectors = found.vectors.numpy()
    if number != "auto" and not 1 <= number <= len(vectors):
        raise UserError(
            f"{len(vectors):,} images can be divided into 1 to {len(vectors):,} groups, not into {number:,}"
        )
    chosen = choose_number(vectors, seed=seed, progress=progress) if number == "auto" else number
    clusters = means_of(vectors, chosen, restarts=10, seed=seed, progress=progress)
    size = np.bincount(clusters.groups, minlength=chosen)
    groups, used = [], Counter[str]()
    for place, which in enumerate(np.argsort(-size, kind="stable")[: np.count_nonzero(size)]):
        images = np.flatnonzero(clusters.groups == which)
        centre = clusters.centres[which]
        similarity = vectors[images] @ centre / max(float(np.linalg.norm(centre)), 1e-12)
        order = np.argsort(-similarity, kind="stable")
        name, labelled, agreeing = _name(found, images)
        if name is None:
            name = f"group {place + 1}"
        used[name] += 1
        unique = name if used[name] == 1 else f"{name} ({used[name]})"
        groups.append(Group(unique, images[order], similarity[order], labelled, agreeing))
    return Groups(tuple(groups), silhouette(vectors, clusters.groups, seed=seed), number == "auto")


def _name(found: Collection, images: Indices) -> tuple[str | None, int, int]:
    """The most frequent label of some images, the number of labelled images, and the number with this label."""
    labels = [name for image in images.tolist() if (name := found.label(image)) is not None]
    if not labels:
        return None, 0, 0
    name, count = Counter(labels).most_common(1)[0]
    return name, len(labels), count
