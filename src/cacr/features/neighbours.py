"""The nearest of many features, and what they vote for."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

KEYS = 16384
"""Keys that are compared at once: with 1,024 queries 64 MB of similarities, whatever the number of images."""


def nearest_keys(queries: Tensor, keys: Tensor, k: int, *, unit: bool = True) -> tuple[Tensor, Tensor]:
    """Similarity and number of the k nearest keys, nearest first; keys are looked at block by block.

    Keys that are not ``unit`` vectors are made so, a block at a time: those in a file are never copied whole.
    """
    near = queries.new_empty(len(queries), 0)
    number = queries.new_empty(len(queries), 0, dtype=torch.int64)
    for start in range(0, len(keys), KEYS):
        some = keys[start : start + KEYS]
        block = queries @ (some if unit else normalize(some, dim=1)).T
        best, where = block.topk(min(k, block.shape[1]), dim=1)
        near, number = torch.cat([near, best], dim=1), torch.cat([number, where + start], dim=1)
        near, order = near.topk(min(k, near.shape[1]), dim=1)
        number = number.gather(1, order)
    return near, number


def vote(
    similarity: Tensor, labels: Tensor, *, classes: int, temperature: float, shares: bool = True
) -> Tensor:
    """The votes of neighbours for classes: each has exp(similarity / temperature).

    Args:
        similarity: (m, k) of each query and its neighbours, nearest first.
        labels: (m, k) classes of the neighbours.
        classes: Number of classes C.
        temperature: Of the votes.
        shares: Divide the votes by their sum; which class has most does not need it.

    Returns:
        (m, C).
    """
    # A common factor of all votes changes nothing; without this one small temperatures overflow.
    votes = ((similarity - similarity[:, :1]) / temperature).exp()
    if shares:
        votes = votes / votes.sum(dim=1, keepdim=True)
    return votes.new_zeros(len(votes), classes).scatter_add_(1, labels, votes)
