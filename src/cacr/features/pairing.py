"""How well images and captions find each other."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

KS = (1, 5, 10)
"""Values of k for recall@k."""

BLOCK = 4_000_000
"""Largest number of similarities in memory."""


class Pairing(NamedTuple):
    """Ranks of a search from images to captions, or from captions to images.

    Attributes:
        ranks: (queries,) rank of the first hit, from 1; keys with equal similarity that are not hits come before it.
        hits: (queries,) number of possible hits.
        ranked: Number of ranked keys per query.
    """

    ranks: Tensor
    hits: Tensor
    ranked: int

    def recall(self, k: int) -> float:
        """Share of queries with a hit among the k nearest."""
        return (self.ranks <= k).double().mean().item()

    def chance(self, k: int) -> float:
        """The recall of a random order: the mean of 1 - C(n - h, k) / C(n, k)."""
        n, k = self.ranked, min(k, self.ranked)
        misses = [math.comb(n - h, k) / math.comb(n, k) for h in self.hits.tolist()]
        return 1 - sum(misses) / len(misses)

    @property
    def median_rank(self) -> float:
        """The median rank of the first hit."""
        return self.ranks.double().quantile(0.5).item()


def same_sentences(captions: Sequence[str]) -> Tensor:
    """(n,) a number per caption, equal for captions that differ only in case, spaces and a full stop."""
    words = [" ".join(caption.casefold().split()).rstrip(" .") for caption in captions]
    number = {sentence: place for place, sentence in enumerate(dict.fromkeys(words))}
    return torch.tensor([number[sentence] for sentence in words], dtype=torch.long)


def find_captions(images: Tensor, texts: Tensor, owner: Tensor, sentence: Tensor) -> Pairing:
    """Search the captions of each image; a caption that is equal to one of its own is also a hit.

    Args:
        images: (images, dim) unit vectors.
        texts: (captions, dim) unit vectors.
        owner: (captions,) the image of each caption.
        sentence: (captions,) equal numbers for equal captions.
    """

    def hits_of(rows: Tensor) -> Tensor:
        hits = _has_pair(owner, sentence, rows, int(sentence.max()) + 1)
        return hits[:, sentence]

    return _ranked(images, texts, hits_of)


def find_images(images: Tensor, texts: Tensor, owner: Tensor, sentence: Tensor) -> Pairing:
    """Search the image of each caption; an image with an equal caption is also a hit. Arguments as above."""

    def hits_of(rows: Tensor) -> Tensor:
        needed, place = torch.unique(sentence[rows], return_inverse=True)
        return _has_pair(sentence, owner, needed, len(images))[place]

    return _ranked(texts, images, hits_of)


def _has_pair(first: Tensor, second: Tensor, rows: Tensor, columns: int) -> Tensor:
    """(rows, columns) whether a caption has this pair of numbers, such as its image and its sentence.

    Only these rows of the table are computed, because the whole table would grow with the square of the data.

    Args:
        first: (captions,) one number per caption.
        second: (captions,) another number per caption.
        rows: (n,) values of ``first``, each once, ascending.
        columns: largest value of ``second`` plus one.
    """
    place = torch.searchsorted(rows, first).clamp(max=len(rows) - 1)
    here = rows[place] == first
    found = torch.zeros(len(rows), columns, dtype=torch.bool)
    found[place[here], second[here]] = True
    return found


def _ranked(queries: Tensor, keys: Tensor, hits_of: Callable[[Tensor], Tensor]) -> Pairing:
    ranks, hits = [], []
    for rows in torch.split(torch.arange(len(queries)), max(1, BLOCK // len(keys))):
        cosines, hit = queries[rows] @ keys.T, hits_of(rows)
        best = cosines.masked_fill(~hit, -torch.inf).max(dim=1, keepdim=True).values
        ranks.append(1 + ((cosines >= best) & ~hit).sum(dim=1))
        hits.append(hit.sum(dim=1))
    return Pairing(torch.cat(ranks), torch.cat(hits), len(keys))
