"""Find the nearest features, and let them vote."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

KEYS = 16384
"""Keys per block: with 1,024 queries, 64 MB of similarities, for any number of images."""


def nearest_keys(queries: Tensor, keys: Tensor, k: int, *, unit: bool = True) -> tuple[Tensor, Tensor]:
    """Similarity and number of the k nearest keys, nearest first; computed block by block.

    Keys that are not ``unit`` vectors are normalised block by block: keys in a file are never copied as a whole.
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
    """The votes of neighbours for classes: each counts exp(similarity / temperature).

    Args:
        similarity: (m, k) similarity of each query and its neighbours, nearest first.
        labels: (m, k) classes of the neighbours.
        classes: Number of classes C.
        temperature: Temperature of the votes.
        shares: Divide the votes by their sum; not needed to find the class with the most votes.

    Returns:
        (m, C).
    """
    # A common factor of all votes changes nothing; this one avoids overflow at small temperatures.
    votes = ((similarity - similarity[:, :1]) / temperature).exp()
    if shares:
        votes = votes / votes.sum(dim=1, keepdim=True)
    return votes.new_zeros(len(votes), classes).scatter_add_(1, labels, votes)
