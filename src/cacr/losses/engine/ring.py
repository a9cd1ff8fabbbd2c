"""Keys that stay distributed over processes: blocks of them are passed around a ring, with constant memory.

Every process has the queries and keys of its own images. The keys are passed from process to process; each process
reduces its queries over the current block and merges the results, which is exact:

    lse  = ln(e^lse_A + e^lse_B)
    mean = e^(lse_A - lse) mean_A + e^(lse_B - lse) mean_B

In the backward pass the keys are passed around again, together with their gradients, to which every process adds the
share of its queries; the last hop returns them to their owner. A block is sent while it is being used, so a process
never has more than two blocks and two of their gradients.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from cacr.losses.engine.chunked import Slopes, block_gradients, block_reductions, first_order
from cacr.losses.engine.masks import Mask


@dataclass(frozen=True)
class Ring:
    """The processes that share a batch, from the point of view of one of them.

    Attributes:
        rank: rank of this process.
        sizes: number of images of each process.
    """

    rank: int
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, images: int, device: torch.device) -> "Ring":
        """The ring of all processes; this process has ``images`` images."""
        own = torch.tensor([images], device=device)
        sizes = [torch.empty_like(own) for _ in range(dist.get_world_size())]
        dist.all_gather(sizes, own)
        return cls(dist.get_rank(), tuple(torch.cat(sizes).tolist()))

    @property
    def world(self) -> int:
        """The number of processes."""
        return len(self.sizes)

    @property
    def images(self) -> int:
        """Number of images of this process."""
        return self.sizes[self.rank]

    @property
    def total(self) -> int:
        """Number of images of all processes."""
        return sum(self.sizes)

    def sum(self, x: Tensor) -> Tensor:
        """The elementwise sum over all processes; for gradients see :mod:`cacr.frameworks.gather`."""
        found: Tensor = _Sum.apply(x, self.world)
        return found

    def log_mean_exp(self, x: Tensor) -> Tensor:
        """The log of the mean of exp(x) over the images of all processes; x is (..., images of this process)."""
        top = x.detach().amax(-1)
        dist.all_reduce(top, dist.ReduceOp.MAX)
        return self.sum((x - top[..., None]).exp().sum(-1)).log() + top - math.log(self.total)

    def before(self, process: int) -> int:
        """The process that sends to this one."""
        return (process - 1) % self.world

    def blocks(self, keys: Tensor) -> Iterator[tuple[int, Tensor]]:
        """The keys (views, images, dim) of every process with its rank, starting with this process."""
        owner, block = self.rank, keys.contiguous()
        for step in range(self.world):
            passing = self.pass_on(block, owner) if step < self.world - 1 else None
            yield owner, block
            if passing is not None:
                owner, block = self.before(owner), passing.arrived()

    def pass_on(self, block: Tensor, owner: int) -> "_Passing":
        """Start to send a block of ``owner`` to the next process, and to receive that of the previous one."""
        arriving = block.new_empty(block.shape[0], self.sizes[self.before(owner)], block.shape[2])
        transfers = [
            dist.P2POp(dist.isend, block, (self.rank + 1) % self.world),
            dist.P2POp(dist.irecv, arriving, self.before(self.rank)),
        ]
        return _Passing(block, arriving, dist.batch_isend_irecv(transfers))


@dataclass(frozen=True)
class _Passing:
    """Two transfers in progress; the sent block is kept until it has left."""

    leaving: Tensor
    arriving: Tensor
    transfers: list[Any]

    def arrived(self) -> Tensor:
        for transfer in self.transfers:
            transfer.wait()
        return self.arriving


class _Sum(torch.autograd.Function):
    """The sum over processes. Its gradient is multiplied by their number, because data parallelism averages."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, world: int) -> Tensor:
        ctx.world = world
        total = x.detach().clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0] * ctx.world, None


class Circulated(torch.autograd.Function):
    """(lse, mean), each (scales, batch, rows), of own queries (batch, rows, dim) over the keys of all processes.

    ``keys`` (key views, images, dim) are those of this process; a query never sees the keys of its own image.
    ``views`` gives the view whose keys each batch of queries sees; None: one batch of queries that sees all.
    """

    @staticmethod
    def forward(
        queries: Tensor,
        keys: Tensor,
        ring: Ring,
        views: tuple[int, ...] | None,
        scales: tuple[float, ...],
        weight_grad: bool,
        product: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        """Pass the keys around the ring once."""
        lse = mean = None
        for owner, block in ring.blocks(keys):
            here = block_reductions(queries, _seen(block, views), _hidden(ring, owner), scales, product)
            if lse is None or mean is None:
                lse, mean = here
            else:
                union = torch.logaddexp(lse, here[0])
                mean = (lse - union).exp_() * mean + (here[0] - union).exp_() * here[1]
                lse = union
        assert lse is not None and mean is not None  # a ring has at least one process
        return lse, mean

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        """Keep only what belongs to this process."""
        queries, keys, ctx.ring, ctx.views, ctx.scales, ctx.weight_grad, ctx.product = inputs
        ctx.save_for_backward(queries, keys, *output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Pass the keys around again; their gradients follow them and return to the owner."""
        queries, keys, lse, mean = ctx.saved_tensors
        ring: Ring = ctx.ring
        with torch.no_grad():
            slopes = Slopes.of(ctx.scales, ctx.weight_grad, lse, mean, *grads)
            of_queries = torch.zeros_like(queries) if ctx.needs_input_grad[0] else None
            passing = None
            for owner, block in ring.blocks(keys):
                from_queries, from_keys = block_gradients(
                    queries,
                    _seen(block, ctx.views),
                    _hidden(ring, owner),
                    ctx.scales,
                    ctx.product,
                    slopes,
                    ctx.needs_input_grad[:2],
                )
                if of_queries is not None and from_queries is not None:
                    of_queries += from_queries
                if from_keys is not None:
                    share = _unseen(from_keys, block, ctx.views)
                    if passing is not None:
                        share += passing.arrived()
                    passing = ring.pass_on(share, owner)
            found = [of_queries, None if passing is None else passing.arrived()]
        return (*first_order(found, (queries, keys)), None, None, None, None, None)


def _seen(block: Tensor, views: tuple[int, ...] | None) -> Tensor:
    """The keys (batch, keys, dim) of a block (views, images, dim) that each batch of queries sees."""
    if views is None:
        return block.flatten(0, 1)[None]
    return block if views == tuple(range(len(block))) else block[list(views)]


def _unseen(gradient: Tensor, block: Tensor, views: tuple[int, ...] | None) -> Tensor:
    """The gradient of a block, from that of the part that was seen; a new tensor."""
    if views is None:
        return gradient.reshape(block.shape)
    if views == tuple(range(len(block))):
        return gradient
    return torch.zeros_like(block).index_add_(0, torch.tensor(views, device=block.device), gradient)


def _hidden(ring: Ring, owner: int) -> Mask | None:
    """The mask of a query's own image, which is among the keys of its own process only."""
    return Mask(ring.images) if owner == ring.rank else None
