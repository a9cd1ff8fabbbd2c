"""The momentum encoder of MoCo: a slowly moving average of encoder and head that makes the keys."""

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from cacr.distributed import world_size
from cacr.encoders import shares_statistics
from cacr.frameworks.framework import encode_views
from cacr.frameworks.gather import gather
from cacr.losses import Ring

EmaSchedule = Literal["constant", "cosine"]

SETTLED = 20
"""In a short run, keys average over the last twentieth of the steps: 1 / (1 - ema) of all steps."""


def ema_problems(given: Mapping[str, Any]) -> list[str]:
    """Problems with a given ``ema``."""
    ema = given.get("ema", 0.0)
    return [] if 0 <= ema <= 1 else [f"ema={ema} must be in [0, 1]"]


def default_ema(most: float, steps: int, settled: int = SETTLED) -> float:
    """Default share of itself that a momentum encoder keeps per step: ``most``, or less in a run of few ``steps``.

    A published value such as 0.999 averages over a thousand steps: in a run of that length the keys would stay those
    of random weights.

    Args:
        most: the published value.
        steps: of the run.
        settled: keys average over this part of the steps, such as 20 for a twentieth.
    """
    return min(most, max(0.0, round(1 - settled / steps, 4)))


def ema_at(start: float, schedule: EmaSchedule, step: int, total: int) -> float:
    """The share after ``step`` of ``total`` steps: constant, or half a cosine from ``start`` to 1.

    cosine: 1 - (1 - start) (1 + cos(pi step / total)) / 2
    """
    if schedule == "constant":
        return start
    return 1 - (1 - start) * (1 + math.cos(math.pi * min(step, total) / total)) / 2


class KeyEncoder(nn.Module):
    """Copies of modules without gradients.

    With several processes and separate batch statistics, each process encodes images of all processes, in a new
    random order for every batch (shuffled batch norm). Otherwise the statistics that a query and its key share would
    reveal which key is its own.

    Args:
        modules: encoder and head, in sequence.
        batch_norm: as for the framework.
    """

    def __init__(self, *modules: nn.Module, batch_norm: str) -> None:
        super().__init__()
        self.copies = nn.ModuleList(copy.deepcopy(module) for module in modules)
        self.copies.requires_grad_(False)
        self.batch_norm = batch_norm

    @torch.no_grad()
    def forward(self, views: Tensor) -> Tensor:
        """Keys (views, images, dim) of views (views, images, 3, s, s)."""
        if world_size() == 1 or not self._has_own_statistics():
            return self._encode(views)
        return torch.cat([self._encode_shuffled(view[None]) for view in views])

    @torch.no_grad()
    def follow(self, modules: Sequence[nn.Module], keep: float) -> None:
        """Update every weight, k <- keep k + (1 - keep) q; running statistics are those of its own batches."""
        own: list[Tensor] = [*self.copies.parameters()]
        others: list[Tensor] = [p for module in modules for p in module.parameters()]
        torch._foreach_lerp_(own, others, 1 - keep)

    def _encode(self, views: Tensor) -> Tensor:
        return encode_views([views], *self.copies, batch_norm=self.batch_norm)

    def _has_own_statistics(self) -> bool:
        """Whether there are batch statistics that are not shared between processes."""
        return not all(shares_statistics(layer) for layer in self.modules())

    def _encode_shuffled(self, view: Tensor) -> Tensor:
        """Keys (1, images, dim) of one view; a random order decides which process encodes each image."""
        ring = Ring.of(view.shape[1], view.device)
        start = sum(ring.sizes[: ring.rank])
        own = slice(start, start + ring.images)
        images = gather(view.flatten(2))
        order = torch.randperm(ring.total, device=view.device)
        dist.broadcast(order, src=0)
        part = images[:, order[own]].reshape(view.shape)
        if view[0].is_contiguous(memory_format=torch.channels_last):
            part = part[0].contiguous(memory_format=torch.channels_last)[None]
        return gather(self._encode(part))[:, order.argsort()[own]]
