"""The queue framework: MoCo v2, with keys of earlier batches as negatives."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Unpack

import torch
from torch import Tensor, nn

from cacr.distributed import world_size
from cacr.encoders import Encoder
from cacr.frameworks.framework import FRAMEWORKS, Facts, Framework, NegativeCount, Shared, encode_views
from cacr.frameworks.gather import exchanged, gather
from cacr.frameworks.key_encoder import EmaSchedule, KeyEncoder, default_ema, ema_at, ema_problems
from cacr.losses import Objective, queued
from cacr.losses.engine.pairs import unit

InBatchNegatives = Literal["gathered", "local", "off"]

LARGEST = 65_536
EMA = 0.999

SETTLED = 4
"""In a short run, keys average over the last quarter of the steps. Negatives are older than the positive: where keys
move fast, queries learn to tell new keys from old ones, not images from images, until the rate falls and everything is
at one point (CIFAR-10, 781 steps, MoCo v2: kNN 36.7 with a twentieth, 50.2 with a third; 46.5 before training)."""


@FRAMEWORKS.register("queue")
class Queue(Framework):
    """MoCo v2: positives from a momentum encoder, negatives from a queue of its earlier keys.

    Every view goes through both encoders (local crops only through the query encoder). Positives of a query are the
    keys of the image's other views. Negatives are the queue and, in the same softmax, the queries of other images in
    the batch, same view. After the step, the keys of the last (global) view join the queue and the oldest leave it:
    the current batch is never in the queue during the loss. The random vectors in a new queue are negatives only at
    the first step: later they would teach nothing, and there would be more of them than keys until the queue is full,
    while the positives already pull all images together.

    Args:
        encoder: as for :class:`Framework`.
        head: as for :class:`Framework`.
        objective: pairs -> named parts of the loss.
        queue_size: number of keys in the queue.
        ema: share of itself that the momentum encoder keeps at each step.
        ema_schedule: ``constant``, or ``cosine`` from ``ema`` to 1 at the end.
        in_batch: negatives from the batch: of all processes (``gathered``), of each process alone (``local``, as in
            the authors' runs; the result then depends on the number of processes), or none (``off``).
        symmetric: every view is a query; false: the first view is the only query, and the only one without a key.
        shared: as for :class:`Framework`.
    """

    holds_targets = True
    objective_defaults: ClassVar = {"pos_grad": False}
    meaningless_options = frozenset({"negatives"})

    def __init__(
        self,
        encoder: Encoder,
        head: nn.Module,
        objective: Objective,
        *,
        queue_size: int = LARGEST,
        ema: float = EMA,
        ema_schedule: EmaSchedule = "constant",
        in_batch: InBatchNegatives = "gathered",
        symmetric: bool = True,
        **shared: Unpack[Shared],
    ) -> None:
        super().__init__(encoder, head, objective, **shared)
        self.ema, self.ema_schedule = ema, ema_schedule
        self.in_batch, self.symmetric = in_batch, symmetric
        self.key_encoder = KeyEncoder(encoder, head, batch_norm=self.batch_norm)
        self.queue: Tensor
        self.enqueued: Tensor
        self.register_buffer("queue", unit(torch.randn(queue_size, embedding_dim(encoder, head))))
        self.register_buffer("enqueued", torch.zeros((), dtype=torch.long))
        self._full = False
        self._waiting: list[Tensor] = []
        # All processes add the same keys, so the queue need not be sent at every step.
        self._ddp_params_and_buffers_to_ignore = ["queue"]

    def embed(self, views: Sequence[Tensor]) -> Tensor:
        """Queries (views, images, dim): of all views, or only of the first."""
        seen = views if self.symmetric else [views[0][:1]]
        return encode_views(seen, self.encoder, self.head, batch_norm=self.batch_norm)

    def targets(self, views: Sequence[Tensor]) -> Tensor:
        """Keys (views, images, dim) of the global crops, and of local ones if they are keys of the objective."""
        first = views[0] if self.symmetric else views[0][1:]
        local = views[1:] if self.objective.local_keys else []
        return torch.cat([self.key_encoder(x) for x in (first, *local)])

    def loss(
        self, queries: Tensor, targets: Tensor | None, global_views: int | None = None
    ) -> dict[str, Tensor]:
        """Compare queries with keys and queue (see :class:`Framework`)."""
        assert targets is not None
        if self.training:
            last = len(targets) if global_views is None else global_views - (not self.symmetric)
            self._waiting.append(gather(targets[last - 1 : last])[0])
        ring = None
        if self.in_batch != "local":
            (queries, targets), ring = exchanged(self.exchange, queries, targets)
        pairs = queued(
            queries,
            targets,
            self._known(),
            in_batch=self.in_batch != "off",
            key_views=None if self.symmetric else range(1, len(targets) + 1),
            ring=ring,
        )
        return self.objective.parts(pairs)

    @torch.no_grad()
    def after_step(self, step: int, total: int) -> None:
        """Update the momentum encoder, and add the keys of the step's batches to the queue."""
        self.key_encoder.follow([self.encoder, self.head], ema_at(self.ema, self.ema_schedule, step, total))
        for keys in self._waiting:
            enqueue(self.queue, self.enqueued, unit(keys))
        self._waiting.clear()

    def _known(self) -> Tensor:
        """The keys in the queue (at most size, dim); before the first step, its random vectors."""
        if not self._full:  # once it is full, the device is no longer asked at every step
            # a dry run, on a device without values, estimates the memory of a full queue
            known = len(self.queue) if self.enqueued.is_meta else int(self.enqueued)
            self._full = known >= len(self.queue)
            if 0 < known < len(self.queue):
                return self.queue[:known]
        return self.queue

    @classmethod
    def default_options(cls, facts: Facts) -> dict[str, Any]:
        """A queue of whole batches, at most half the data set; a momentum that suits the length of the run."""
        most = min(LARGEST, facts.images // 2)
        size = max(facts.batch_size, most // facts.batch_size * facts.batch_size)
        return {"queue_size": size, "ema": default_ema(EMA, facts.steps, SETTLED)}

    @classmethod
    def option_problems(cls, given: Mapping[str, Any]) -> list[str]:
        """Problems with ``ema``: it must be in [0, 1]."""
        return ema_problems(given)

    @classmethod
    def unused_crops(cls, objective: Objective, options: Mapping[str, Any]) -> str | None:
        """With ``symmetric=false`` no local crop is a query; they can only be keys."""
        if options.get("symmetric", True) or objective.local_keys:
            return None
        return (
            "symmetric=false has no use for local crops, because the first global crop is the only query: set "
            "symmetric=true, or use another --preset"
        )

    @classmethod
    def problems(cls, options: Mapping[str, Any], facts: Facts) -> list[str]:
        """Problems: the queue is not a multiple of the batch, or an image would be its own negative."""
        size, batch, found = options["queue_size"], facts.batch_size, []
        if size % batch or size < batch:
            fitting = max(batch, round(size / batch) * batch)
            found.append(
                f"queue_size={size} is not a multiple of the global batch, {batch}: use {fitting}, or auto"
            )
        if size > facts.images:
            found.append(
                f"queue_size={size} is larger than the data set of {facts.images} images: use at most half of that, "
                "or auto"
            )
        return found

    def negatives(self, images: int, views: int) -> NegativeCount:
        """Negatives of one query (see :class:`Framework`)."""
        return self._counted(images, "the queue")

    def negatives_text(self, images: int, views: int, *, accumulate: int = 1) -> str:
        """Also say when the queue is full (see :class:`Framework`); the keys of all batches of a step join it."""
        if not self.objective.has_negatives:
            return super().negatives_text(images, views, accumulate=accumulate)
        steps = -(-len(self.queue) // (images * accumulate))
        found = self._counted(images, f"the queue (full after {steps:,} steps)")
        return f"{found.number:,} per query: {found.origin}"

    def _counted(self, images: int, queue: str) -> NegativeCount:
        """Negatives of one query; ``queue`` describes those of the queue."""
        size = len(self.queue)
        match self.in_batch:
            case "off":
                return NegativeCount(size, queue)
            case "local":
                others = images // world_size() - 1
                return NegativeCount(
                    size + others, f"{queue}, and the other images of the process, same view"
                )
            case _:
                return NegativeCount(
                    size + images - 1, f"{queue}, and the other images in the batch, same view"
                )


@torch.no_grad()
def enqueue(queue: Tensor, enqueued: Tensor, keys: Tensor) -> None:
    """Replace the oldest keys of a queue (..., size, dim) by keys (..., n, dim), in place.

    Args:
        queue: a ring buffer, filled from its start.
        enqueued: total number of keys so far, a scalar; increased by n.
        keys: at most as many as the size of the queue.
    """
    places = (enqueued + torch.arange(keys.shape[-2], device=queue.device)) % queue.shape[-2]
    queue.index_copy_(queue.dim() - 2, places, keys.to(queue.dtype))
    enqueued += keys.shape[-2]


def embedding_dim(encoder: Encoder, head: nn.Module) -> int:
    """The dimension of the embeddings: that of the last linear layer."""
    linear = [layer for layer in head.modules() if isinstance(layer, nn.Linear)]
    return linear[-1].out_features if linear else encoder.feature_dim
