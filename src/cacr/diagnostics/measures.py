"""Metrics of a set of embeddings, and of features if there are labels."""

import torch
from torch import Tensor

from cacr.features.neighbours import vote
from cacr.features.reader import COMPONENTS, READER, fit_reader
from cacr.losses.engine.pairs import unit
from cacr.losses.measures import (
    alignment,
    conditional_entropy,
    maximum_entropy,
    positive_weights,
    reversed_negatives,
    reversed_positives,
    uniformity,
)

MINIBATCH = 128
"""M: entropies are computed in mini-batches of this size, so that runs on different data are comparable."""

T_POS, T_NEG = 1.0, 2.0
"""t+ and t- of the entropies: the same for every run, so that runs are comparable."""

BLOCK = 1024
"""Images that are compared with all others at a time: memory grows linearly with the number of measured images."""

NEIGHBOURS, TEMPERATURE = 20, 0.07
"""The online kNN: number of neighbours that vote, each with exp(cosine / temperature)."""

KNN = {
    "k": NEIGHBOURS,
    "temperature": TEMPERATURE,
    "neighbours": "the other measured images",
    "reader": f"{READER}, {COMPONENTS} components, fitted on the measured images",
}
"""Description of the online kNN."""


@torch.no_grad()
def measure_embeddings(z: Tensor, *, t_pos: float = T_POS, t_neg: float = T_NEG) -> dict[str, float]:
    """All metrics that need no labels.

    With d = ||x - y||^2 between unit vectors, as in the paper: ``positive_distance`` and ``negative_distance`` are
    means of d over pairs of views of an image and over pairs of images (in the same view), ``..._std`` their standard
    deviations.
    ``entropy`` is H(X-|X) in mini-batches of :data:`MINIBATCH` images (all images if there are fewer),
    ``max_entropy`` its largest possible value, ln(M-1), and ``mutual_information`` the difference of both;
    ``positive_entropy`` is that of pi+, at most ln K. ``reversed_forces`` is the share of all pairs, positive and
    negative, that weights with gradients move in the wrong direction.

    Args:
        z: (views, images, dim) embeddings of at least two views of at least two images, of any length.
        t_pos: t+ of the training, for the reversed forces.
        t_neg: t- of the training, for the reversed forces.
    """
    z = unit(z)
    batches = minibatches(z)
    entropy, most, positive, wrong = (
        torch.stack([of(batch) for batch in batches]).mean().item()
        for of in (
            lambda batch: conditional_entropy(batch, T_NEG),
            maximum_entropy,
            lambda batch: _entropy(positive_weights(batch, T_POS)),
            lambda batch: _reversed(batch, t_pos, t_neg),
        )
    )
    near, (far, far_std) = _positive_distances(z), _negative_distances(z[0])
    return {
        "entropy": entropy,
        "max_entropy": most,
        "mutual_information": most - entropy,
        "alignment": alignment(z).item(),
        "uniformity": uniformity(z[:2]).item(),
        "effective_rank": effective_rank(z[0]),
        "positive_distance": near.mean().item(),
        "positive_distance_std": near.std(unbiased=False).item(),
        "negative_distance": far,
        "negative_distance_std": far_std,
        "positive_entropy": positive,
        "reversed_forces": wrong,
    }


def minibatches(z: Tensor) -> list[Tensor]:
    """(views, images, dim) in parts of :data:`MINIBATCH` images; a smaller rest is dropped, except if it is all."""
    size = min(MINIBATCH, z.shape[1])
    return [z[:, begin : begin + size] for begin in range(0, z.shape[1] - size + 1, size)]


def effective_rank(z: Tensor) -> float:
    """RankMe of embeddings (n, dim): exp(-sum_k p_k ln p_k), p_k the singular values over their sum.

    It is 1 if all lie on one line through the origin, and at most min(n, dim).
    """
    values = torch.linalg.svdvals(z.double())
    p = values / values.sum().clamp_min(torch.finfo(values.dtype).tiny)
    return float(torch.special.entr(p).sum().exp())


@torch.no_grad()
def online_knn(features: Tensor, labels: Tensor) -> float:
    """Share of images whose class the nearest other images predict, with read features.

    The reader (:mod:`cacr.features.reader`) is the default one, fitted to these features.

    Each of the :data:`NEIGHBOURS` nearest images (all others if there are fewer) votes for its class with
    exp(cosine / :data:`TEMPERATURE`).

    Args:
        features: (n, dim), of any length.
        labels: (n,) numbers of the classes.
    """
    x = unit(fit_reader(features)(features))
    found = []
    for begin in range(0, len(x), BLOCK):
        cosines = x[begin : begin + BLOCK] @ x.T
        cosines.diagonal(begin).fill_(-torch.inf)  # an image is not its own neighbour
        found.append(cosines.topk(min(NEIGHBOURS, len(x) - 1), dim=1))
    near, index = (torch.cat(parts) for parts in zip(*found, strict=True))
    _, labels = torch.unique(labels, return_inverse=True)  # numbers of classes may have gaps
    classes = int(labels.max()) + 1
    score = vote(near, labels[index], classes=classes, temperature=TEMPERATURE, shares=False)
    return float((score.argmax(1) == labels).double().mean())


def _entropy(weights: Tensor) -> Tensor:
    """The mean over queries of -sum_k w_k ln w_k."""
    entropy: Tensor = torch.special.entr(weights).sum(-1).mean()
    return entropy


def _reversed(z: Tensor, t_pos: float, t_neg: float) -> Tensor:
    """Share of the K positives and M-1 negatives of each query that move in the wrong direction."""
    positives, negatives = z.shape[0] - 1, z.shape[1] - 1
    wrong = positives * reversed_positives(z, t_pos) + negatives * reversed_negatives(z, t_neg)
    return wrong / (positives + negatives)


def _positive_distances(z: Tensor) -> Tensor:
    """D of each pair of views, for each image."""
    first, second = torch.triu_indices(len(z), len(z), 1, device=z.device)
    return (z[first] - z[second]).square().sum(-1)


def _negative_distances(x: Tensor) -> tuple[float, float]:
    """Mean and standard deviation of D over all pairs of images, from unit vectors (n, dim)."""
    total = torch.zeros(2, dtype=torch.float64, device=x.device)
    for begin in range(0, len(x), BLOCK):
        apart = (2 - 2 * x[begin : begin + BLOCK] @ x.T).clamp_min(0).double()
        apart.diagonal(begin).zero_()
        total += torch.stack([apart.sum(), apart.square().sum()])
    mean, square = (total / (len(x) * (len(x) - 1))).tolist()
    return mean, max(0.0, square - mean**2) ** 0.5
