"""k-means on unit vectors, and the choice of the number of clusters."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacr.data.prepare import Progress
from cacr.randomness import mixed_seed, numpy_generator

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

MOST_FITTED = 20_000
"""Number of images for computing means; a random sample if there are more."""

MOST_JUDGED = 2_000
"""Number of images for the silhouette, which compares all pairs; a random sample if there are more."""

NUMBERS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64)
"""Numbers of clusters to try."""

IMAGES_PER_CLUSTER = 4
"""Smallest number of images per cluster; larger numbers of clusters are not tried."""


@dataclass(frozen=True)
class Clusters:
    """Clusters of unit vectors.

    Attributes:
        groups: (n,) the cluster of each vector, from 0.
        centres: (clusters, dim).
    """

    groups: Integers
    centres: Floats


def means_of(
    vectors: Floats, number: int, *, restarts: int = 3, seed: int = 0, progress: Progress | None = None
) -> Clusters:
    """The best of several k-means clusterings of unit vectors (n, dim); clusters may be empty."""
    fitted = vectors
    if len(vectors) > MOST_FITTED:
        drawn = numpy_generator("clusters", seed).choice(
            len(vectors), max(MOST_FITTED, number), replace=False
        )
        fitted = vectors[np.sort(drawn)]
    model = best_kmeans(fitted, number, restarts, seed, progress)
    return Clusters(model.predict(vectors).astype(np.int64), model.cluster_centers_)


def best_kmeans(
    features: Floats, clusters: int, restarts: int, seed: int, progress: Progress | None = None
) -> Any:
    """The k-means with the lowest inertia, of several with different first centres.

    Args:
        features: (n, d), normalised for clusters by cosine.
        clusters: Number of clusters.
        restarts: Number of starts.
        seed: Seed of the starts.
        progress: Called with the number of starts done and the total.

    Returns:
        A fitted ``sklearn.cluster.KMeans``.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    best = None
    for start in range(restarts):
        state = mixed_seed("kmeans", seed, start) % 2**32
        with warnings.catch_warnings():
            # With fewer distinct features than clusters, some clusters are empty: see `used`.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = KMeans(clusters, n_init=1, random_state=state).fit(features)
        if best is None or model.inertia_ < best.inertia_:
            best = model
        if progress is not None:
            progress(start + 1, restarts)
    return best


def silhouette(vectors: Floats, groups: Integers, *, seed: int = 0) -> float:
    """Mean over images of (b - a) / max(a, b): a, distance from its own cluster; b, from the next one; -1 to 1.

    Uses a random sample of 2,000 images if there are more. 0 if there is only one cluster, or one per image.
    """
    from sklearn.metrics import silhouette_score

    rows = np.arange(len(vectors))
    if len(rows) > MOST_JUDGED:
        rows = np.sort(numpy_generator("silhouette", seed).choice(len(rows), MOST_JUDGED, replace=False))
    if not 1 < len(np.unique(groups[rows])) < len(rows):
        return 0.0
    return float(silhouette_score(vectors[rows], groups[rows]))


def choose_number(vectors: Floats, *, seed: int = 0, progress: Progress | None = None) -> int:
    """The number of clusters in :data:`NUMBERS` with the highest silhouette, if there are enough images for it."""
    tried = [number for number in NUMBERS if number * IMAGES_PER_CLUSTER <= len(vectors)]
    if not tried:
        return 1
    scores = []
    for number in tried:
        groups = means_of(vectors, number, restarts=1, seed=seed).groups
        scores.append(silhouette(vectors, groups, seed=seed))
        if progress is not None:
            progress(len(scores), len(tried))
    return tried[int(np.argmax(scores))]
