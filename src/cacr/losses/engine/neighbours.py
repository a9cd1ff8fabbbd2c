"""Find the nearest keys of a query, and count keys below a bound: block by block, without gradients."""

from collections.abc import Iterator

import torch
from torch import Tensor

from cacr.losses.engine.chunked import rows_per_block, slices
from cacr.losses.engine.reductions import Keys, aligned, similarities


@torch.no_grad()
def nearest_key(queries: Tensor, keys: Keys) -> Tensor:
    """The position of the most similar key of each query, (..., rows)."""
    places = [s.argmax(-1) for _, s in similarity_blocks(queries, keys, -torch.inf)]
    return torch.cat(places, 1).reshape(queries.shape[:-1])


@torch.no_grad()
def nearest_to_image(queries: Tensor, keys: Keys, count: int) -> tuple[Tensor, Tensor]:
    """The ``count`` keys most similar to any view of an image: similarities and positions, (images, count).

    Args:
        queries: (views, images, dim).
        keys: Keys shared by all views.
        count: At most the number of keys.
    """
    per_view = Keys(keys.vectors.expand(len(queries), -1, -1), keys.mask)
    found = [s.amax(0).topk(count, dim=-1) for _, s in similarity_blocks(queries, per_view, -torch.inf)]
    return torch.cat([best.values for best in found]), torch.cat([best.indices for best in found])


@torch.no_grad()
def nearest_keys(queries: Tensor, keys: Keys, count: int) -> Tensor:
    """The positions of the ``count`` most similar keys of each query, (..., rows, count).

    -1 fills the places of a query that sees fewer keys.
    """
    found = [s.topk(count, dim=-1) for _, s in similarity_blocks(queries, keys, -torch.inf)]
    places = [torch.where(near.values > -torch.inf, near.indices, -1) for near in found]
    return torch.cat(places, 1).reshape(*queries.shape[:-1], count)


@torch.no_grad()
def count_below(queries: Tensor, keys: Keys, bound: Tensor) -> Tensor:
    """Number of keys of each query with a similarity below its ``bound`` (..., rows)."""
    bounds = bound.reshape(aligned(queries, keys)[0].shape[:2])
    counts = [(s < bounds[:, r, None]).sum(-1) for r, s in similarity_blocks(queries, keys, torch.inf)]
    return torch.cat(counts, 1).reshape(bound.shape)


def similarity_blocks(queries: Tensor, keys: Keys, fill: float) -> Iterator[tuple[slice, Tensor]]:
    """Blocks of rows with their similarities (batch, rows, keys), ``fill`` where a key is hidden."""
    queries, vectors, mask = aligned(queries, keys)
    for r in slices(queries.shape[1], rows_per_block(len(queries) * vectors.shape[1], queries.device)):
        s = similarities(queries[:, r], vectors)
        yield r, s if mask is None else mask.hide_(s, fill, r)
