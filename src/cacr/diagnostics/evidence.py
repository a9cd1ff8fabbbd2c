"""Metrics without labels: what the features know about images that were not trained on.

All metrics except rank and spread use *read* features: centred, whitened and normalised. So the scale of a direction
does not matter, and encoders, their initial weights and raw pixels are compared by the same reader. Cosines that are
equal except for rounding are ties. Ties are decided by a fair draw, and the mean over all draws is computed: if all
features are equal, the score is that of guessing.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from cacr.encoders import ReaderKind
from cacr.features.reader import LEAST_IMAGES, fit_reader
from cacr.losses.engine.pairs import unit
from cacr.randomness import generator

READER: ReaderKind = "white"
COMPONENTS = 64
"""The reader of these metrics: always the same, so that runs are comparable."""

NEIGHBOURS = 10
"""Number of nearest neighbours that are compared between views of an image."""

CLUSTERS, HALVINGS, ROUNDS = 10, 8, 20
"""Largest number of clusters per half of the images; number of random halvings to average; rounds of k-means."""

FEWEST = LEAST_IMAGES
"""With fewer images only rank and spread are measured, because no reader can be fitted."""

MOST = 1024
"""Largest number of images, taken evenly from all: matrices of more would cost more than their views."""

_TIE = 1e-9
"""Cosines (float64) that differ by less are equal."""


@torch.no_grad()
def measure_features(centre: Tensor, random: Tensor, strong: Tensor) -> dict[str, float]:
    """All metrics of the features of at most :data:`MOST` images; only rank and spread below :data:`FEWEST`.

    ``view_retrieval`` and ``view_rank``: a random view finds the other view of its image among those of all images,
    in both directions. ``strong_retrieval`` and ``strong_rank``: a stronger view finds the centre view of its image.
    ``neighbour_agreement`` and ``strong_agreement``: a random or stronger view has the same neighbours as the centre
    view. ``half_agreement``: clusters of one half of the images match those of the other half. ``feature_rank``,
    ``feature_rank_share`` and ``feature_spread``: see the functions of these names. Features that are not finite have
    no metrics.

    Args:
        centre: (images, dim) features of at least two images in the evaluation view.
        random: (2, images, dim) in random views, as in training.
        strong: (2, images, dim) in stronger views.
    """
    if not all(bool(torch.isfinite(x).all()) for x in (centre, random, strong)):
        return {}
    chosen = torch.linspace(0, len(centre) - 1, min(MOST, len(centre)), dtype=torch.float64).round().long()
    centre, random, strong = (x[..., chosen.to(x.device), :].double() for x in (centre, random, strong))
    rank = feature_rank(centre)
    figures = {
        "feature_rank": rank,
        "feature_rank_share": rank / min(len(centre) - 1, centre.shape[1]),
        "feature_spread": feature_spread(centre),
    }
    if len(centre) < FEWEST:
        return figures
    reader = fit_reader(centre, READER, COMPONENTS)
    centre, random, strong = (
        unit(reader(x.flatten(0, -2)).double()).view(*x.shape[:-1], -1) for x in (centre, random, strong)
    )
    view_retrieval, view_rank = _mean_of(retrieval(*random), retrieval(*random.flip(0)))
    strong_retrieval, strong_rank = _mean_of(*(retrieval(view, centre) for view in strong))
    return figures | {
        "view_retrieval": view_retrieval,
        "view_rank": view_rank,
        "strong_retrieval": strong_retrieval,
        "strong_rank": strong_rank,
        "neighbour_agreement": neighbour_agreement(centre, random),
        "strong_agreement": neighbour_agreement(centre, strong),
        "half_agreement": half_agreement(centre),
    }


def _mean_of(*found: "Retrieval") -> "Retrieval":
    return Retrieval(*(sum(each) / len(found) for each in zip(*found, strict=True)))


class Retrieval(NamedTuple):
    """How well images are found.

    Attributes:
        found: share of the queries whose own image is nearest; guessing scores 1 / n.
        rank: mean reciprocal rank of the own image; guessing scores H(n) / n, H(n) = 1 + 1/2 + ... + 1/n.
    """

    found: float
    rank: float


def retrieval(queries: Tensor, keys: Tensor) -> Retrieval:
    """How well views find their own image.

    With s_ij the cosine of query i and key j, a_i = #{j: s_ij > s_ii} keys before the own one and
    e_i = #{j: s_ij = s_ii} keys tied with it (including itself), each rank from a_i + 1 to a_i + e_i is equally
    likely:

        found = mean_i [a_i = 0] / e_i,     rank = mean_i (1 / e_i) sum_{r = a_i + 1}^{a_i + e_i} 1 / r

    Args:
        queries: (n, dim) read features, one per image.
        keys: (n, dim) read features of the same images in another view.
    """
    cosines = queries @ keys.T
    own = cosines.diagonal()[:, None]
    before = (cosines > own + _TIE).sum(1)
    equal = ((cosines - own).abs() <= _TIE).sum(1)
    reciprocals = torch.arange(1, len(keys) + 1, dtype=cosines.dtype, device=cosines.device).reciprocal()
    harmonic = torch.cat([reciprocals.new_zeros(1), reciprocals.cumsum(0)])
    rank = (harmonic[before + equal] - harmonic[before]) / equal
    found = (before == 0) / equal
    return Retrieval(float(found.double().mean()), float(rank.mean()))


def neighbour_agreement(centre: Tensor, views: Tensor) -> float:
    """Whether an image keeps its neighbours in another view: 1 for all of them, 0 for as many as by guessing.

    With w_ij = 1 if key j is among the k nearest to the centre view of image i (see :data:`NEIGHBOURS`), w'_ij the
    same for another view of it, and the centre views of the n - 1 other images as keys:

        o = mean_i (1 / k) sum_j w_ij w'_ij,     agreement = (o - c) / (1 - c),     c = k / (n - 1)

    Keys that tie for the last places share them: w_ij is the probability of a place.

    Args:
        centre: (n, dim) read features, of more images than neighbours.
        views: (views, n, dim) in other views; the result is the mean over them.
    """
    own = _places(centre @ centre.T)
    overlap = torch.stack([(own * _places(view @ centre.T)).sum(1).mean() for view in views]).mean()
    chance = NEIGHBOURS / (len(centre) - 1)
    return (float(overlap) / NEIGHBOURS - chance) / (1 - chance)


def _places(cosines: Tensor) -> Tensor:
    """(n, n) probability that each other image is among the nearest of image i; the sum of each row is k."""
    cosines = cosines.fill_diagonal_(-torch.inf)
    last = cosines.topk(NEIGHBOURS, dim=1).values[:, -1:]
    before = (cosines > last + _TIE).to(cosines.dtype)
    equal = ((cosines - last).abs() <= _TIE).to(cosines.dtype)
    return before + equal * (NEIGHBOURS - before.sum(1, keepdim=True)) / equal.sum(1, keepdim=True)


def half_agreement(x: Tensor) -> float:
    """Whether clusters of one half of the images are found in the other half: 1 if they are the same, 0 by chance.

    The images are divided into halves A and B. k-means of each half gives means. The images of B are divided by the
    means of A and by their own means; the adjusted Rand index compares the two divisions. The same is done for A. The
    result is the mean over both halves and :data:`HALVINGS` divisions, which are always the same. k is
    :data:`CLUSTERS`, or an eighth of the images if that is less; k-means starts at the first k images of a half.

    Args:
        x: (n, dim) read features of at least 16 images.
    """
    found = []
    for number in range(HALVINGS):
        order = torch.randperm(len(x), generator=generator("halves", number)).to(x.device)
        halves = x[order].tensor_split(2)
        means = [_k_means(half) for half in halves]
        for half in halves:
            found.append(_rand_index(_nearest(half, means[0]), _nearest(half, means[1]), CLUSTERS))
    return float(torch.stack(found).mean())


def _k_means(x: Tensor) -> Tensor:
    """(k, dim) means after some rounds; a mean without images does not move."""
    means = x[: min(CLUSTERS, len(x) // 4)]
    for _ in range(ROUNDS):
        members = torch.nn.functional.one_hot(_nearest(x, means), len(means)).to(x.dtype)
        counts = members.sum(0)[:, None]
        means = torch.where(counts > 0, members.T @ x / counts.clamp_min(1), means)
    return means


def _nearest(x: Tensor, means: Tensor) -> Tensor:
    """(n,) index of the nearest mean; computed without the terms that all means share."""
    return (means.square().sum(1) - 2 * x @ means.T).argmin(1)


def _rand_index(first: Tensor, second: Tensor, clusters: int) -> Tensor:
    """The adjusted Rand index of two divisions (n,) of the same images.

    With n_ab images in cluster a of the first and b of the second, pairs(m) = m (m - 1) / 2 and sums S of pairs(n_ab),
    P of pairs(n_a.), Q of pairs(n_.b): (S - E) / ((P + Q) / 2 - E), E = P Q / pairs(n). If neither division divides
    anything, the result is 0.
    """
    table = torch.bincount(first * clusters + second, minlength=clusters**2).view(clusters, clusters).double()
    both, one, other = (_pairs(part).sum() for part in (table, table.sum(1), table.sum(0)))
    expected = one * other / _pairs(table.sum())
    most = (one + other) / 2
    return torch.where(most > expected, (both - expected) / (most - expected), 0.0)


def _pairs(count: Tensor) -> Tensor:
    return count * (count - 1) / 2


def feature_rank(features: Tensor) -> float:
    """Effective rank of features about their mean: exp(-sum_k p_k ln p_k), p_k the singular values over their sum.

    It is 1 if all features lie on a line, at most min(n - 1, dim), and 0 if all are one point.

    Args:
        features: (n, dim), not read.
    """
    centred = features - features.mean(0)
    squares = torch.linalg.eigvalsh(_gram(centred))  # several times faster than the singular values
    values = squares[squares > _rounding(features)].sqrt()
    return float(torch.special.entr(values / values.sum()).sum().exp()) if len(values) else 0.0


def feature_spread(features: Tensor) -> float:
    """Mean cosine distance between two images, mean_{i != j} 1 - x_i . x_j, of normalised features.

    The features are not centred: then it would always be about 1. It is 0 if all features point in one direction.

    Args:
        features: (n, dim), not read.
    """
    x = unit(features)
    together = x.sum(0).square().sum() - x.square().sum()  # over all i != j, without the matrix
    return 1 - float(together) / (len(x) * (len(x) - 1))


def _gram(centred: Tensor) -> Tensor:
    """CC' or C'C, the smaller one; their nonzero eigenvalues are the squared singular values of C."""
    return centred @ centred.T if len(centred) < centred.shape[1] else centred.T @ centred


def _rounding(features: Tensor) -> Tensor:
    """Squared singular values up to this cannot be distinguished from rounding errors of float32 features."""
    return 1e-12 * features.square().sum()
