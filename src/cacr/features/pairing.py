"""How well images and captions find each other."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

KS = (1, 5, 10)
"""Of recall@k."""

BLOCK = 4_000_000
"""Similarities that are held at once."""


class Pairing(NamedTuple):
    """What one side finds on the other.

    Attributes:
        ranks: (queries,) place of the first hit among all that were ranked, from 1 on; those that are as near as it
            and no hits stand before it.
        hits: (queries,) how many would be hits.
        ranked: How many were ranked for each query.
    """

    ranks: Tensor
    hits: Tensor
    ranked: int

    def recall(self, k: int) -> float:
        """Share of queries with a hit among the k nearest."""
        return (self.ranks <= k).double().mean().item()

    def chance(self, k: int) -> float:
        """What a random order scores: the mean of 1 - C(n - h, k) / C(n, k)."""
        n, k = self.ranked, min(k, self.ranked)
        misses = [math.comb(n - h, k) / math.comb(n, k) for h in self.hits.tolist()]
        return 1 - sum(misses) / len(misses)

    @property
    def median_rank(self) -> float:
        """The median place of the first hit."""
        return self.ranks.double().quantile(0.5).item()


def same_sentences(captions: Sequence[str]) -> Tensor:
    """(n,) a number for each caption, equal for captions that are equal but for case, space and a full stop."""
    words = [" ".join(caption.casefold().split()).rstrip(" .") for caption in captions]
    number = {sentence: place for place, sentence in enumerate(dict.fromkeys(words))}
    return torch.tensor([number[sentence] for sentence in words], dtype=torch.long)


def find_captions(images: Tensor, texts: Tensor, owner: Tensor, sentence: Tensor) -> Pairing:
    """Each image looks for its captions; a caption that is equal to one of its own is a hit too.

    Args:
        images: (images, dim) unit vectors.
        texts: (captions, dim) unit vectors.
        owner: (captions,) the image of each caption.
        sentence: (captions,) equal numbers for equal captions.
    """

    def hits_of(rows: Tensor) -> Tensor:
        said = _said(owner, sentence, rows, int(sentence.max()) + 1)
        return said[:, sentence]

    return _ranked(images, texts, hits_of)


def find_images(images: Tensor, texts: Tensor, owner: Tensor, sentence: Tensor) -> Pairing:
    """Each caption looks for its image; an image that has an equal caption is a hit too. Arguments as above."""

    def hits_of(rows: Tensor) -> Tensor:
        told, place = torch.unique(sentence[rows], return_inverse=True)
        return _said(sentence, owner, told, len(images))[place]

    return _ranked(texts, images, hits_of)


def _said(first: Tensor, second: Tensor, rows: Tensor, columns: int) -> Tensor:
    """(rows, columns) whether a caption has this pair of numbers, such as its image and its sentence.

    Only these rows of the whole table are held: that of all images and all sentences grows with their square.

    Args:
        first: (captions,) a number of each caption.
        second: (captions,) another number of it.
        rows: (n,) values of the first, each one once, in ascending order.
        columns: one more than the largest value of the second.
    """
    place = torch.searchsorted(rows, first).clamp(max=len(rows) - 1)
    here = rows[place] == first
    said = torch.zeros(len(rows), columns, dtype=torch.bool)
    said[place[here], second[here]] = True
    return said


def _ranked(queries: Tensor, keys: Tensor, hits_of: Callable[[Tensor], Tensor]) -> Pairing:
    ranks, hits = [], []
    for rows in torch.split(torch.arange(len(queries)), max(1, BLOCK // len(keys))):
        cosines, hit = queries[rows] @ keys.T, hits_of(rows)
        best = cosines.masked_fill(~hit, -torch.inf).max(dim=1, keepdim=True).values
        ranks.append(1 + ((cosines >= best) & ~hit).sum(dim=1))
        hits.append(hit.sum(dim=1))
    return Pairing(torch.cat(ranks), torch.cat(hits), len(keys))
