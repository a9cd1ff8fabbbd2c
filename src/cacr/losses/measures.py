"""Metrics of a batch of embeddings that need no labels, from the same pairs and reductions as the objectives."""

import torch
from torch import Tensor

from cacr.losses.align_uniform import alignment_of, uniformity_of
from cacr.losses.engine.neighbours import count_below
from cacr.losses.engine.pairs import Negatives, Pairs, in_batch, positives_only
from cacr.losses.engine.reductions import aligned, lse, lse_of, mean, mean_of, reduce, similarities


@torch.no_grad()
def conditional_entropy(z: Tensor | Pairs, t_neg: float = 2.0, negatives: Negatives = "same") -> Tensor:
    """H(X-|X) = mean_i -sum_j pi-_ij ln pi-_ij, in nats; its maximum is :func:`maximum_entropy`.

    A collapsed encoder also reaches the maximum: look at :func:`uniformity` too.

    Args:
        z: (views, images, dim), or pairs.
        t_neg: t- of pi-.
        negatives: In-batch negatives, see :func:`cacr.losses.engine.pairs.in_batch`.
    """
    pairs = _pairs(z, negatives)
    scale = 2 * t_neg
    reduced = reduce(pairs.queries, pairs.negatives, scale)
    return (reduced.lse() - scale * reduced.mean()).mean()


@torch.no_grad()
def maximum_entropy(z: Tensor | Pairs, negatives: Negatives = "same") -> Tensor:
    """The largest H(X-|X), reached with equal weights: ln n for n negatives."""
    return _pairs(z, negatives).log_count().mean()


@torch.no_grad()
def mutual_information(z: Tensor | Pairs, t_neg: float = 2.0, negatives: Negatives = "same") -> Tensor:
    """I(X;X-) = mean_i sum_j pi-_ij ln(n pi-_ij) = ln n - H(X-|X), in nats."""
    pairs = _pairs(z, negatives)
    return maximum_entropy(pairs) - conditional_entropy(pairs, t_neg)


@torch.no_grad()
def alignment(z: Tensor, alpha: float = 2.0) -> Tensor:
    """The mean of ||x - x+||^alpha over all pairs of views of an image; z (views, images, dim)."""
    return alignment_of(positives_only(z), alpha)


@torch.no_grad()
def uniformity(z: Tensor, t: float = 2.0) -> Tensor:
    """The mean over views of ln mean_{i != j} exp(-t ||x_i - x_j||^2); z (views, images, dim)."""
    return uniformity_of(in_batch(z, "same"), t)


@torch.no_grad()
def positive_weights(z: Tensor | Pairs, t_pos: float = 1.0) -> Tensor:
    """The weights pi+ of each query's positives, (views, images, K)."""
    pairs = _pairs(z, "same")
    logits = -2 * t_pos * pairs.positives
    weights = (logits - lse_of(pairs.positives, -2 * t_pos, pairs.absent)[..., None]).exp()
    return weights if pairs.absent is None else weights.masked_fill(pairs.absent, 0)


@torch.no_grad()
def negative_weights(z: Tensor | Pairs, t_neg: float = 2.0, negatives: Negatives = "same") -> Tensor:
    """The weights pi- of each query's negatives, as a full tensor (groups, images, keys); 0 for hidden keys."""
    pairs = _pairs(z, negatives)
    total = lse(pairs.queries, pairs.negatives, 2 * t_neg)[..., None]
    weights = []
    for keys in pairs.negatives:
        queries, vectors, mask = aligned(pairs.queries, keys)
        part = (2 * t_neg * similarities(queries, vectors) - total.reshape(*queries.shape[:2], 1)).exp()
        part = part if mask is None else mask.hide_(part, 0.0)
        weights.append(part.reshape(*pairs.queries.shape[:-1], -1))
    return torch.cat(weights, -1)


@torch.no_grad()
def reversed_negatives(z: Tensor | Pairs, t_neg: float = 2.0, negatives: Negatives = "same") -> Tensor:
    """The share of negatives that weights with gradients attract: c_j > sum_j pi-_j c_j + 1 / t-.

    With gradients through pi-, dL_CR / dc_j = -pi-_j (1 - t- (c_j - sum_j pi-_j c_j)).
    """
    pairs = _pairs(z, negatives)
    bound = mean(pairs.queries, pairs.negatives, 2 * t_neg) - 1 / (2 * t_neg)
    beyond = sum(count_below(pairs.queries, keys, bound).sum() for keys in pairs.negatives)
    return beyond / pairs.log_count().exp().expand(pairs.queries.shape[:-1]).sum()


@torch.no_grad()
def reversed_positives(z: Tensor | Pairs, t_pos: float = 1.0) -> Tensor:
    """The share of positives that weights with gradients repel: c_k < sum_k pi+_k c_k - 1 / t+."""
    pairs = _pairs(z, "same")
    expected = mean_of(pairs.positives, -2 * t_pos, pairs.absent)[..., None]
    repelled = pairs.positives > expected + 1 / (2 * t_pos)
    return pairs.average(repelled.to(pairs.positives.dtype), pairs.absent)


def _pairs(z: Tensor | Pairs, negatives: Negatives) -> Pairs:
    return z if isinstance(z, Pairs) else in_batch(z, negatives)
