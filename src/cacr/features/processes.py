"""Several processes that evaluate together: each encodes its share, and all hold the same features in the end."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from cacr.distributed import world_size


def gather_rows(rows: Tensor) -> Tensor:
    """The rows of all processes, in their order; each may have another number of them, even none."""
    if world_size() == 1:
        return rows
    sizes: list[Any] = [None] * world_size()
    dist.all_gather_object(sizes, len(rows))
    padded = rows.new_zeros(max(sizes), *rows.shape[1:])
    padded[: len(rows)] = rows
    parts = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(parts, padded)
    return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])


def gather_objects(thing: Any) -> list[Any]:
    """What each process has, in their order."""
    if world_size() == 1:
        return [thing]
    things: list[Any] = [None] * world_size()
    dist.all_gather_object(things, thing)
    return things
