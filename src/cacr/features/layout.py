"""Positions of embeddings on a 2-D map, and their clusters."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cacr.randomness import mixed_seed, numpy_generator

Points = NDArray[np.float64]

TSNE_SAMPLE = 3_000
"""Number of embeddings for t-SNE: a random sample if there are more; the others are placed near it."""

TSNE_STEPS = 500
_PERPLEXITY, _DIMS, _BESIDE = 30.0, 50, 3
_KMEANS_SAMPLE, _AT_ONCE = 10_000, 4_096


def layout(x: Tensor, *, seed: int = 0, sample: int = TSNE_SAMPLE) -> Points:
    """Positions (n, 2) in the unit square: near embeddings get near positions.

    A random sample goes through PCA (to 50 dimensions) and t-SNE (perplexity 30, or a third of the others). Every
    other embedding is placed at the mean of its three nearest in the sample, weighted by 1 / distance^2.

    Args:
        x: (n, dim) unit vectors.
        seed: Seed of the sample and of t-SNE.
        sample: Size of the sample.
    """
    if len(x) <= sample:
        return _in_unit_square(_tsne(x.numpy(), seed))
    rng = numpy_generator("layout", seed)
    chosen = np.sort(rng.choice(len(x), sample, replace=False))
    others = np.setdiff1d(np.arange(len(x)), chosen)
    places = np.empty((len(x), 2))
    places[chosen] = _tsne(x[chosen].numpy(), seed)
    places[others] = _beside(x[others], x[chosen], places[chosen])
    return _in_unit_square(places)


def aligned(places: Points, to: Points) -> Points:
    """Rotate or mirror a layout so that its images are as near as possible to their positions in another layout.

    Args:
        places: (n, 2) positions of images.
        to: (n, 2) positions of the same images in the other layout.
    """
    a, b = places - places.mean(0), to - to.mean(0)
    u, _, v = np.linalg.svd(a.T @ b)  # orthogonal Procrustes: Q = u v minimises ||a Q - b||
    return _in_unit_square(a @ (u @ v))


def clusters(x: Tensor, count: int, *, seed: int = 0) -> NDArray[np.int64]:
    """(n,) the k-means cluster of each unit vector; the largest cluster has number 0.

    Means are computed from at most 10,000 random vectors.
    """
    from sklearn.cluster import KMeans

    vectors = x.numpy()
    rng = numpy_generator("clusters", seed)
    drawn = np.sort(rng.choice(len(x), min(len(x), _KMEANS_SAMPLE), replace=False))
    distinct = len(np.unique(vectors[drawn], axis=0))
    means = KMeans(min(count, distinct), n_init=1, random_state=_state("k-means", seed)).fit(vectors[drawn])
    found = means.predict(vectors)
    rank = np.argsort(np.argsort(-np.bincount(found, minlength=means.n_clusters), kind="stable"))
    numbers: NDArray[np.int64] = rank[found]
    return numbers


def _tsne(x: NDArray[np.float32], seed: int) -> Points:
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    x = x - x.mean(0)
    dims = min(_DIMS, *x.shape)
    state = _state("t-SNE", seed)
    if x.std() > 1e-6:
        x = PCA(dims, random_state=state).fit_transform(x)
    spread = x[:, 0].std()
    if len(x) < 5 or not spread > 1e-6:  # too few for neighbourhoods, or all one point
        return np.pad(x[:, :2].astype(np.float64), ((0, 0), (0, max(0, 2 - x.shape[1]))))
    first = np.pad(x[:, :2], ((0, 0), (0, max(0, 2 - dims)))) / spread * 1e-4  # t-SNE starts small, from PCA
    perplexity = min(_PERPLEXITY, (len(x) - 1) / 3)
    tsne = TSNE(perplexity=perplexity, init=first, max_iter=TSNE_STEPS, random_state=state)
    places: Points = tsne.fit_transform(x).astype(np.float64)
    return places


def _beside(x: Tensor, placed: Tensor, places: Points) -> Points:
    """Positions of vectors near those that are placed already."""
    found = []
    for start in range(0, len(x), _AT_ONCE):
        part = x[start : start + _AT_ONCE]
        cosine, index = (part @ placed.T).topk(min(_BESIDE, len(placed)), dim=1)
        weight = 1 / ((2 - 2 * cosine).clamp_min(0) + 1e-9)
        weight = weight / weight.sum(1, keepdim=True)
        found.append((weight.double()[..., None] * torch.from_numpy(places)[index]).sum(1))
    return torch.cat(found).numpy()


def _in_unit_square(places: Points) -> Points:
    """Move and scale positions, with the same factor in both directions; a single point is at the centre."""
    low, high = places.min(0), places.max(0)
    moved: Points = (places - (low + high) / 2) / max(float((high - low).max()), 1e-12) + 0.5
    return moved


def _state(purpose: str, seed: int) -> int:
    return mixed_seed(purpose, seed) % 2**32
