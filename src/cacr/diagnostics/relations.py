"""Nearest neighbours in a set of embeddings, and which images push each other away."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cacr.data.prepare import Progress

_CHUNK_ELEMENTS = 2**25  # of the block of cosines in memory


@dataclass(frozen=True)
class Related:
    """For each image, the most related other images, the strongest first.

    Attributes:
        index: (n, k) numbers of the other images.
        value: (n, k) strength: a cosine or a weight.
    """

    index: Tensor
    value: Tensor


def nearest_others(x: Tensor, k: int, progress: Progress | None = None) -> Related:
    """The k nearest others of each vector, by cosine.

    Args:
        x: (n, dim) unit vectors.
        k: number of neighbours; n - 1 if there are fewer others.
        progress: called with the number of vectors done and the total.
    """
    return _related(x, k, None, progress)


def hardest_pushes(z: Tensor, k: int, t_neg: float, progress: Progress | None = None) -> Related:
    """The k other images that push each image hardest, if all were in one batch.

    The value is (n - 1) pi-_ij with pi-_ij = softmax_{j != i}(-t- ||z_i - z_j||^2): the weight relative to equal
    weights, which does not depend on the number of images.

    Args:
        z: (n, dim) unit vectors: the embeddings that the objective compares.
        k: number of others; n - 1 if there are fewer.
        t_neg: t- of pi-.
        progress: called with the number of vectors done and the total.
    """
    return _related(z, k, 2 * t_neg, progress)


def _related(x: Tensor, k: int, scale: float | None, progress: Progress | None) -> Related:
    """The largest cosines of each row with the others, or, with ``scale``, the largest softmax weights."""
    n = len(x)
    k = min(k, n - 1)
    rows = max(1, _CHUNK_ELEMENTS // max(n, 1))
    index, value = [], []
    for start in range(0, n, rows):
        chunk = x[start : start + rows]
        cosines = chunk @ x.T
        own = torch.arange(len(chunk), device=x.device)
        cosines[own, start + own] = -math.inf
        top = cosines.topk(k, dim=1)
        index.append(top.indices)
        if scale is None:
            value.append(top.values)
        else:
            total = torch.logsumexp(scale * cosines, dim=1, keepdim=True)
            value.append((scale * top.values - total).exp() * (n - 1))
        if progress is not None:
            progress(start + len(chunk), n)
    return Related(torch.cat(index), torch.cat(value))
