"""The prototypes framework: SwAV, which compares views by their assignments to learned prototypes."""

from collections.abc import Mapping
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from cacr.data.order import share
from cacr.distributed import world_size
from cacr.encoders import Encoder
from cacr.frameworks.framework import FRAMEWORKS, Facts, Framework, Shared
from cacr.frameworks.gather import gather
from cacr.frameworks.queue import embedding_dim, enqueue
from cacr.losses import Objective, Ring, Scores
from cacr.losses.engine.full_precision import full_precision
from cacr.losses.engine.pairs import unit

MOST, IMAGES_EACH = 3000, 100
"""Prototypes at most, and images for each of them in a small set."""

FROZEN, QUEUE, SMALL_BATCH, QUEUE_EPOCH = 313, 3840, 256, 15
"""SwAV's: steps with frozen prototypes, earlier embeddings for batches up to the third, and from which epoch on."""


@FRAMEWORKS.register("prototypes")
class Prototypes(Framework):
    """SwAV: the assignment of one view to prototypes is predicted from the others.

    Scores are cosines of embeddings with prototypes, which are trained and brought back to unit length after every
    step. The first ``assigning`` global crops give assignments, which use all prototypes equally often over the global
    batch and, from a stated epoch on, a queue of earlier embeddings, which matters where a batch has fewer images than
    there are prototypes.

    Args:
        encoder: as for :class:`Framework`.
        head: features -> embeddings.
        objective: scores -> named parts of the loss.
        prototypes: number of them.
        frozen_steps: steps before prototypes are trained.
        assigning: views that give assignments, from the first.
        queue_size: earlier embeddings of each of these views; 0: none.
        queue_from_epoch: epochs before they take part; they are collected from the start.
        shared: as for :class:`Framework`.
    """

    gives = "scores"
    sync_batch_norm = True

    def __init__(
        self,
        encoder: Encoder,
        head: nn.Module,
        objective: Objective,
        *,
        prototypes: int = MOST,
        frozen_steps: int = FROZEN,
        assigning: int = 2,
        queue_size: int = 0,
        queue_from_epoch: int = QUEUE_EPOCH,
        **shared: Unpack[Shared],
    ) -> None:
        super().__init__(encoder, head, objective, **shared)
        dim = embedding_dim(encoder, head)
        self.prototypes = nn.Parameter(unit(torch.randn(prototypes, dim)))
        self.frozen_steps, self.assigning = frozen_steps, assigning
        self.queue_from_epoch = queue_from_epoch
        self.queue: Tensor
        self.enqueued: Tensor
        self.register_buffer("queue", torch.zeros(assigning, queue_size, dim))
        self.register_buffer("enqueued", torch.zeros((), dtype=torch.long))
        self._frozen = self._queue_is_used = False
        self._held: Tensor | None = None
        self._waiting: list[Tensor] = []
        self._ddp_params_and_buffers_to_ignore = [
            "queue"
        ]  # as in the queue framework: alike in all processes

    def loss(
        self, queries: Tensor, targets: Tensor | None, global_views: int | None = None
    ) -> dict[str, Tensor]:
        """Assignments of global crops, predicted from all others (see :class:`Framework`)."""
        z = unit(queries)
        if self.training and self.queue.shape[1]:
            self._waiting.append(gather(z[: self.assigning].detach()))
        earlier = self._earlier() if self._queue_is_used else None
        with full_precision(z.device):
            weights = self.prototypes.to(z.dtype)
            scores = z @ weights.T
            known = None if earlier is None else earlier @ weights.detach().T
        ring = None if world_size() == 1 else Ring.of(z.shape[1], z.device)
        return self.objective.parts(Scores(scores, min(self.assigning, global_views or len(z)), known, ring))

    def before_step(self, step: int, total: int, epoch: int) -> None:
        """Whether prototypes are frozen and the queue is used follows from the place in the run alone."""
        super().before_step(step, total, epoch)
        self._frozen = step < self.frozen_steps
        self._queue_is_used = bool(self.queue.shape[1]) and epoch >= self.queue_from_epoch and step > 0

    def hold_gradients(self) -> None:
        """Frozen prototypes get none; zeros, because an optimiser may not take weights that join it later."""
        if self._frozen and self.prototypes.grad is not None:
            self.prototypes.grad.zero_()
            self._held = self.prototypes.detach().clone()

    @torch.no_grad()
    def after_step(self, step: int, total: int) -> None:
        """Prototypes go back to unit length, and the embeddings of the step's batches join the queue."""
        self.prototypes.copy_(
            unit(self.prototypes) if self._held is None else self._held
        )  # weight decay moved it
        self._held = None
        for z in self._waiting:
            enqueue(self.queue, self.enqueued, z[:, -self.queue.shape[1] :])
        self._waiting.clear()

    def _earlier(self) -> Tensor:
        """The share of this process of the embeddings in the queue, (assigning, n, dim)."""
        size = self.queue.shape[1]
        known = size if self.enqueued.is_meta else min(int(self.enqueued), size)
        if world_size() == 1:
            return self.queue[:, :known]
        return self.queue[:, share(known, torch.distributed.get_rank(), world_size())]

    @classmethod
    def default_head(cls, transformer: bool) -> str:
        """SimCLR's two layers."""
        return "simclr"

    @classmethod
    def default_options(cls, facts: Facts) -> dict[str, Any]:
        """Fewer prototypes, and less time before they move and the queue is used, in small sets and short runs."""
        epochs = facts.steps * facts.batch_size / max(1, facts.images)
        small = facts.batch_size <= SMALL_BATCH
        return {
            "prototypes": max(2, min(MOST, facts.images // IMAGES_EACH)),
            "frozen_steps": min(FROZEN, facts.steps // 100),
            "queue_size": min(QUEUE, facts.images // 2) if small else 0,
            "queue_from_epoch": min(QUEUE_EPOCH, max(1, round(0.075 * epochs))),
        }

    @classmethod
    def option_problems(cls, given: Mapping[str, Any]) -> list[str]:
        """Assignments need something to choose from, and views that give them."""
        found = []
        if given.get("prototypes", 2) < 2:
            found.append(
                f"prototypes={given['prototypes']}: every image would be assigned to it; give 2 or more"
            )
        if given.get("assigning", 1) < 1:
            found.append(f"assigning={given['assigning']}: at least one view must give assignments")
        counts = ("queue_size", "frozen_steps", "queue_from_epoch")
        return found + [
            f"{name}={given[name]} must be 0 or above" for name in counts if given.get(name, 0) < 0
        ]

    @classmethod
    def problems(cls, options: Mapping[str, Any], facts: Facts) -> list[str]:
        """The queue must not hold an image twice, and local crops assign nothing."""
        found = []
        if options["queue_size"] > facts.images:
            found.append(
                f"queue_size={options['queue_size']} is longer than the data set of {facts.images} images: give "
                "half of that at most, or auto"
            )
        if options.get("assigning", 2) > facts.global_views:
            found.append(
                f"assigning={options.get('assigning', 2)}: local crops give no assignments, and an image has "
                f"{facts.global_views} other views"
            )
        return found
