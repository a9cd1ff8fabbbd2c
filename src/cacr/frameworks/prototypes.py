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
"""Largest number of prototypes, and number of images per prototype in a small data set."""

FROZEN, QUEUE_EPOCH = 313, 15
"""SwAV's values: steps with frozen prototypes, first epoch with a queue."""


@FRAMEWORKS.register("prototypes")
class Prototypes(Framework):
    """SwAV: predict the assignment of one view to prototypes from the other views.

    Scores are cosines of embeddings and prototypes, which are trained and normalised after every step. The first
    ``assigning`` global crops give assignments. These use all prototypes equally often, over the global batch and,
    from a given epoch on, a queue of earlier embeddings; the queue matters if a batch has fewer images than there are
    prototypes.

    Args:
        encoder: as for :class:`Framework`.
        head: features -> embeddings.
        objective: scores -> named parts of the loss.
        prototypes: number of prototypes.
        frozen_steps: number of steps before prototypes are trained.
        assigning: number of views (the first ones) that give assignments.
        queue_size: number of earlier embeddings for each of these views; 0: none.
        queue_from_epoch: first epoch in which they are used; they are collected from the start.
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
        ]  # as in the queue framework: the same in all processes

    def loss(
        self, queries: Tensor, targets: Tensor | None, global_views: int | None = None
    ) -> dict[str, Tensor]:
        """Predict the assignments of global crops from all other views (see :class:`Framework`)."""
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
        """Decide by the position in the run whether prototypes are frozen and the queue is used."""
        super().before_step(step, total, epoch)
        self._frozen = step < self.frozen_steps
        self._queue_is_used = bool(self.queue.shape[1]) and epoch >= self.queue_from_epoch and step > 0

    def hold_gradients(self) -> None:
        """Set gradients of frozen prototypes to zero; not None, because optimisers may not accept weights later."""
        if self._frozen and self.prototypes.grad is not None:
            self.prototypes.grad.zero_()
            self._held = self.prototypes.detach().clone()

    @torch.no_grad()
    def after_step(self, step: int, total: int) -> None:
        """Normalise the prototypes, and add the embeddings of the step's batches to the queue."""
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
        """For small data and short runs: fewer prototypes, which are trained earlier, and an earlier start of a queue.

        There is no queue unless asked for. The encoder of a short run changes so fast that old and new embeddings have
        different prototypes, and the batch need not use all: on CIFAR-10 kNN was 33 % instead of 49 %.
        """
        return {
            "prototypes": max(2, min(MOST, facts.images // IMAGES_EACH)),
            "frozen_steps": min(FROZEN, facts.steps // 100),
            "queue_size": 0,
            "queue_from_epoch": min(QUEUE_EPOCH, max(1, round(0.075 * facts.epochs))),
        }

    @classmethod
    def option_problems(cls, given: Mapping[str, Any]) -> list[str]:
        """Problems: too few prototypes or assigning views."""
        found = []
        if given.get("prototypes", 2) < 2:
            found.append(
                f"prototypes={given['prototypes']}: every image would have the same assignment: use 2 or more"
            )
        if given.get("assigning", 1) < 1:
            found.append(f"assigning={given['assigning']}: at least one view must give assignments")
        counts = ("queue_size", "frozen_steps", "queue_from_epoch")
        return found + [
            f"{name}={given[name]} must be 0 or above" for name in counts if given.get(name, 0) < 0
        ]

    @classmethod
    def problems(cls, options: Mapping[str, Any], facts: Facts) -> list[str]:
        """Problems: a queue with an image twice or without use, prototypes never trained, local crops that assign."""
        found = []
        if options["frozen_steps"] >= facts.steps:
            found.append(
                f"frozen_steps={options['frozen_steps']}: prototypes would never be trained in {facts.steps} steps: "
                "use fewer, or auto"
            )
        if options["queue_size"] and options["queue_from_epoch"] >= facts.epochs:
            found.append(
                f"queue_from_epoch={options['queue_from_epoch']}: the queue would never be used in {facts.epochs:g} "
                "epochs: use an earlier one (0 is the first), or queue_size=0"
            )
        if options["queue_size"] > facts.images:
            found.append(
                f"queue_size={options['queue_size']} is larger than the data set of {facts.images} images: use "
                "at most half of that, or auto"
            )
        if options.get("assigning", 2) > facts.global_views:
            found.append(
                f"assigning={options.get('assigning', 2)}: local crops give no assignments, and an image has only "
                f"{facts.global_views} global views"
            )
        return found
