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


@FRAMEWORKS.register("queue")
class Queue(Framework):
    """MoCo v2: positives from a momentum encoder, negatives from a queue of its earlier keys.

    Every view goes through both encoders (local crops through the query encoder only). A query's positives are
    the keys of the image's other views; its negatives are the queue and, in one softmax with it, the queries of
    the other images in the batch, same view. After the step the keys of the last (global) view join the queue
    and the oldest leave it: the current batch is never in it during the loss. The random vectors that it holds
    in the beginning are negatives at the first step only: later they would teach nothing, and outnumber the
    keys for as long as the queue fills, while the positives already pull all images together.

    Args:
        encoder: as for :class:`Framework`.
        head: as for :class:`Framework`.
        objective: pairs -> named parts of the loss.
        queue_size: keys in the queue.
        ema: share of itself that the momentum encoder keeps at each step.
        ema_schedule: ``constant``, or ``cosine`` from ``ema`` to 1 at the end.
        in_batch: negatives from the batch: of all processes (``gathered``), of each process alone (``local``, as
            the authors ran it; the result then depends on the number of processes), or none (``off``).
        symmetric: every view is a query; false: the first view is the only query, and the only one without key.
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
        # All processes enqueue the same keys: data parallelism need not send the queue around at every step.
        self._ddp_params_and_buffers_to_ignore = ["queue"]

    def embed(self, views: Sequence[Tensor]) -> Tensor:
        """Queries (views, images, dim): of all views, or of the first alone."""
        seen = views if self.symmetric else [views[0][:1]]
        return encode_views(seen, self.encoder, self.head, batch_norm=self.batch_norm)

    def targets(self, views: Sequence[Tensor]) -> Tensor:
        """Keys (views, images, dim) of the global crops, and of local ones where the objective has these as keys."""
        first = views[0] if self.symmetric else views[0][1:]
        local = views[1:] if self.objective.local_keys else []
        return torch.cat([self.key_encoder(x) for x in (first, *local)])

    def loss(
        self, queries: Tensor, targets: Tensor | None, global_views: int | None = None
    ) -> dict[str, Tensor]:
        """Queries against keys and queue (see :class:`Framework`)."""
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
        """The momentum encoder follows, and the keys of the step's batches join the queue."""
        self.key_encoder.follow([self.encoder, self.head], ema_at(self.ema, self.ema_schedule, step, total))
        for keys in self._waiting:
            enqueue(self.queue, self.enqueued, unit(keys))
        self._waiting.clear()

    def _known(self) -> Tensor:
        """The keys in the queue (at most size, dim); before the first, its random vectors."""
        if not self._full:  # once it is, the device need not be asked at every step
            # a dry run, on a device without values, is about the memory of a full queue
            known = len(self.queue) if self.enqueued.is_meta else int(self.enqueued)
            self._full = known >= len(self.queue)
            if 0 < known < len(self.queue):
                return self.queue[:known]
        return self.queue

    @classmethod
    def default_options(cls, facts: Facts) -> dict[str, Any]:
        """A queue of at most half the data set, in whole batches; a momentum that suits the length of the run."""
        most = min(LARGEST, facts.images // 2)
        size = max(facts.batch_size, most // facts.batch_size * facts.batch_size)
        return {"queue_size": size, "ema": default_ema(EMA, facts.steps)}

    @classmethod
    def option_problems(cls, given: Mapping[str, Any]) -> list[str]:
        """A share is at most the whole."""
        return ema_problems(given)

    @classmethod
    def problems(cls, options: Mapping[str, Any], facts: Facts) -> list[str]:
        """Keys join the queue in whole batches, and an image must not meet itself in it at every step."""
        size, batch, found = options["queue_size"], facts.batch_size, []
        if size % batch or size < batch:
            fitting = max(batch, round(size / batch) * batch)
            found.append(
                f"queue_size={size} is no multiple of the global batch, {batch}: give {fitting}, or auto"
            )
        if size > facts.images:
            found.append(
                f"queue_size={size} is longer than the data set of {facts.images} images: give half of that at most, "
                "or auto"
            )
        return found

    def negatives(self, images: int, views: int) -> NegativeCount:
        """Negatives of one query (see :class:`Framework`)."""
        size = len(self.queue)
        queue = f"the queue (full after {-(-size // images):,} steps)"
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
    """Put keys (..., n, dim) in the places of the oldest of a queue (..., size, dim), in place.

    Args:
        queue: a ring, filled from its beginning.
        enqueued: how many keys have joined it so far, a scalar; counts on by n.
        keys: at most as many as the queue holds.
    """
    places = (enqueued + torch.arange(keys.shape[-2], device=queue.device)) % queue.shape[-2]
    queue.index_copy_(queue.dim() - 2, places, keys.to(queue.dtype))
    enqueued += keys.shape[-2]


def embedding_dim(encoder: Encoder, head: nn.Module) -> int:
    """The dimension of the embeddings: the last linear layer's, whatever follows it."""
    linear = [layer for layer in head.modules() if isinstance(layer, nn.Linear)]
    return linear[-1].out_features if linear else encoder.feature_dim
