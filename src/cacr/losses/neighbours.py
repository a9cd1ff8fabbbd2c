"""The nearest keys of a query, and how many keys lie beyond a bound: block by block, without gradients."""

from collections.abc import Iterator

import torch
from torch import Tensor

from cacr.losses.chunked import blocks, rows_per_block
from cacr.losses.reductions import Keys, aligned, similarities


@torch.no_grad()
def nearest(queries: Tensor, keys: Keys) -> Tensor:
    """The position of the most similar key of each query, (..., rows)."""
    places = [s.masked_fill(hidden, -torch.inf).argmax(-1) for _, s, hidden in _blocks(queries, keys)]
    return torch.cat(places, 1).reshape(queries.shape[:-1])


@torch.no_grad()
def nearest_to_image(queries: Tensor, keys: Keys, count: int) -> tuple[Tensor, Tensor]:
    """The ``count`` keys most similar to any view of an image: similarities and positions, (images, count).

    Args:
        queries: (views, images, dim).
        keys: Keys shared by all views.
        count: At most as many as there are keys.
    """
    per_view = Keys(keys.vectors.expand(len(queries), -1, -1), keys.mask)
    found = [
        s.masked_fill(hidden, -torch.inf).amax(0).topk(count, dim=-1)
        for _, s, hidden in _blocks(queries, per_view)
    ]
    return torch.cat([best.values for best in found]), torch.cat([best.indices for best in found])


@torch.no_grad()
def count_below(queries: Tensor, keys: Keys, bound: Tensor) -> Tensor:
    """How many keys of each query have a similarity below its ``bound`` (..., rows)."""
    flat = bound.reshape(aligned(queries, keys)[0].shape[:2])
    counts = [((s < flat[:, r, None]) & ~hidden).sum(-1) for r, s, hidden in _blocks(queries, keys)]
    return torch.cat(counts, 1).reshape(bound.shape)


def _blocks(queries: Tensor, keys: Keys) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Blocks of rows with their similarities to all keys and what of them is hidden."""
    queries, vectors, mask = aligned(queries, keys)
    nothing = torch.zeros((), dtype=torch.bool, device=queries.device)
    for r in blocks(queries.shape[1], rows_per_block(queries, vectors.shape[1])):
        yield r, similarities(queries[:, r], vectors), nothing if mask is None else mask.hidden(r)
