"""Share embeddings between processes, with the right gradients.

One convention for the scale of gradients: every process computes the loss of the *whole* global batch, and
data-parallel training *averages* parameter gradients over the processes. A process can only backpropagate to its own
images, so its gradient is the share of its own images, multiplied by the number of processes to undo the average. The
result equals that of a single process with the whole batch, for any number of processes.

There are two ways, equal in value and gradient:

- ``gather``: every process receives all embeddings and computes every query;
- ``ring``: every process computes its own queries while keys are passed around (:mod:`cacr.losses.engine.ring`); sums
  over queries are then sums over processes, whose backward pass multiplies by their number as that of gathering does,
  and the gradients of keys are the sum of those of all processes.
"""

from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor

from cacr.distributed import world_size
from cacr.losses import Ring

Exchange = Literal["gather", "ring"]


class _Gather(torch.autograd.Function):
    """All-gather along the images; the backward pass needs no communication (see the convention of the module)."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, ring: Ring) -> Tensor:
        ctx.ring = ring
        largest = max(ring.sizes)
        own = z.contiguous()
        if ring.images < largest:  # collectives need equal shapes: shares of an uneven last batch are padded
            own = z.new_zeros(z.shape[0], largest, z.shape[2])
            own[:, : ring.images] = z
        parts = [torch.empty_like(own) for _ in ring.sizes]
        dist.all_gather(parts, own)
        return torch.cat([part[:, :size] for part, size in zip(parts, ring.sizes, strict=True)], dim=1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        ring: Ring = ctx.ring
        start = sum(ring.sizes[: ring.rank])
        return grads[0][:, start : start + ring.images] * ring.world, None


def gather(z: Tensor) -> Tensor:
    """Embeddings (views, images, dim) of this process -> (views, all images, dim), ordered by rank.

    The identity for a single process. Processes may have different numbers of images.
    """
    return exchanged("gather", z)[0][0]


def exchanged(exchange: Exchange, *embeddings: Tensor) -> tuple[tuple[Tensor, ...], Ring | None]:
    """The input of :mod:`cacr.losses.engine.pairs` for the loss of the global batch.

    Args:
        exchange: ``gather`` or ``ring``.
        embeddings: Each (views, images, dim), of the same images of this process.

    Returns:
        The embeddings of all processes and None; or, for ``ring``, those of this process and its ring.
    """
    ring = None if world_size() == 1 else Ring.of(embeddings[0].shape[1], embeddings[0].device)
    if ring is None or exchange == "ring":
        return embeddings, ring
    return tuple(_Gather.apply(z, ring) for z in embeddings), None
