"""Several processes that evaluate together: each one encodes a share, and all get the same features."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from cacr.distributed import world_size


def gather_rows(rows: Tensor) -> Tensor:
    """The rows of all processes, in their order; the number of rows may differ, and may be 0."""
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
    """The objects of all processes, in their order."""
    if world_size() == 1:
        return [thing]
    things: list[Any] = [None] * world_size()
    dist.all_gather_object(things, thing)
    return things
