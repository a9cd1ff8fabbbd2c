"""Weighted nearest neighbours on cached features."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

QUERIES, KEYS = 1024, 16384
"""Rows of a block of similarities: 64 MB, whatever the number of images."""


def knn_predict(train: Tensor, labels: Tensor, test: Tensor, *, k: int, temperature: float) -> Tensor:
    """The class (m,) for which the nearest neighbours vote; arguments as of :func:`knn_scores`."""
    classes = int(labels.max()) + 1
    return knn_scores(train, labels, test, classes=classes, k=k, temperature=temperature).argmax(dim=1)


def knn_scores(
    train: Tensor, labels: Tensor, test: Tensor, *, classes: int, k: int, temperature: float
) -> Tensor:
    """The share of the nearest neighbours' votes that each class gets.

    With s_j the cosine of a test feature and its neighbour j, one of the k nearest training features, class c
    gets sum exp(s_j / temperature) over its neighbours of class c, divided by the sum over all of them.

    Args:
        train: (n, d) training features.
        labels: (n,) their classes.
        test: (m, d) test features.
        classes: Number of classes.
        k: Neighbours that vote; all of them if there are fewer.
        temperature: Of the votes.

    Returns:
        (m, classes).
    """
    shares = []
    for block in torch.split(test, QUERIES):
        queries = normalize(block, dim=1)
        near, neighbours = nearest(queries, train, min(k, len(train)), unit=False)
        # A common factor of all votes changes nothing; without this one small temperatures overflow.
        votes = ((near - near[:, :1]) / temperature).exp()
        share = votes / votes.sum(dim=1, keepdim=True)
        shares.append(queries.new_zeros(len(queries), classes).scatter_add_(1, labels[neighbours], share))
    return torch.cat(shares)


def nearest(queries: Tensor, keys: Tensor, k: int, *, unit: bool = True) -> tuple[Tensor, Tensor]:
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
