"""Embeddings of all processes, with the right gradients.

One convention for the scale of gradients, everywhere: every process computes the loss of the *whole* global
batch, and data-parallel training *averages* parameter gradients over the processes. A process holds the
path from the gathered embeddings to its own images only, so its gradient is its own images' share, times
the number of processes to undo the average. The result equals a single process with the whole batch, for
any number of them.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class _Gather(torch.autograd.Function):
    """All-gather along the images; the backward pass needs no communication (see the module's convention)."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, sizes: list[int], rank: int) -> Tensor:
        ctx.start, ctx.images, ctx.world = sum(sizes[:rank]), sizes[rank], len(sizes)
        parts = [z.new_empty(z.shape[0], size, z.shape[2]) for size in sizes]
        largest = max(sizes)
        if all(size == largest for size in sizes):
            dist.all_gather(parts, z.contiguous())
            return torch.cat(parts, dim=1)
        # Collectives want equal shapes: shares of an uneven last batch are padded on the way.
        padded = [z.new_empty(z.shape[0], largest, z.shape[2]) for _ in sizes]
        own = z.new_zeros(z.shape[0], largest, z.shape[2])
        own[:, : z.shape[1]] = z
        dist.all_gather(padded, own)
        return torch.cat([part[:, :size] for part, size in zip(padded, sizes, strict=True)], dim=1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (grad,) = grads
        return grad[:, ctx.start : ctx.start + ctx.images] * ctx.world, None, None


def gather(z: Tensor) -> Tensor:
    """Embeddings (views, images, dim) of this process -> (views, all images, dim), ordered by rank.

    With a single process this is the identity. Processes may hold different numbers of images.
    """
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return z
    size = torch.tensor([z.shape[1]], device=z.device)
    sizes = [torch.empty_like(size) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, size)
    gathered: Tensor = _Gather.apply(z, [int(s) for s in sizes], dist.get_rank())
    return gathered
