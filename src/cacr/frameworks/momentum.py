"""The momentum framework: MoCo v3 and BYOL, with a predictor and the keys of the batch."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Unpack

import torch
from torch import Tensor, nn

from cacr.encoders import Encoder
from cacr.frameworks.framework import (
    FRAMEWORKS,
    Facts,
    Framework,
    NegativeCount,
    Shared,
    batch_negatives,
    encode_views,
    pairs_with_keys,
)
from cacr.frameworks.gather import exchanged
from cacr.frameworks.key_encoder import EmaSchedule, KeyEncoder, default_ema, ema_at, ema_problems
from cacr.losses import Objective

EMA_TRANSFORMER, EMA_CONVOLUTIONS = 0.99, 0.996


@FRAMEWORKS.register("momentum")
class Momentum(Framework):
    """MoCo v3: predictions compared with a momentum encoder's keys of the other images in the batch.

    A query is made by encoder, head (projector) and predictor from any crop; keys are made by momentum encoder and
    head from global crops. Positives of a query are the keys of the image's other views, negatives the keys of other
    images in the global batch, as ``negatives`` of the objective says; the default here is ``cross``.

    Args:
        encoder: as for :class:`Framework`.
        head: features -> embeddings, the projector.
        objective: pairs -> named parts of the loss.
        predictor: embeddings -> predictions of the same dimension.
        ema: share of itself that the momentum encoder keeps at the first step.
        ema_schedule: ``cosine`` from ``ema`` to 1 at the end, or ``constant``.
        shared: as for :class:`Framework`.
    """

    has_predictor = True
    holds_targets = True
    sync_batch_norm = True
    objective_defaults: ClassVar = {"pos_grad": False, "negatives": "cross"}

    def __init__(
        self,
        encoder: Encoder,
        head: nn.Module,
        objective: Objective,
        *,
        predictor: nn.Module,
        ema: float = EMA_TRANSFORMER,
        ema_schedule: EmaSchedule = "cosine",
        **shared: Unpack[Shared],
    ) -> None:
        super().__init__(encoder, head, objective, **shared)
        self.predictor = predictor
        self.ema, self.ema_schedule = ema, ema_schedule
        self.key_encoder = KeyEncoder(encoder, head, batch_norm=self.batch_norm)

    def embed(self, views: Sequence[Tensor]) -> Tensor:
        """Predictions (views, images, dim) of all crops."""
        return encode_views(views, self.encoder, self.head, self.predictor, batch_norm=self.batch_norm)

    def targets(self, views: Sequence[Tensor]) -> Tensor:
        """Keys (views, images, dim) of the global crops, and of local ones if they are keys of the objective."""
        return torch.cat([self.key_encoder(x) for x in (views if self.objective.local_keys else views[:1])])

    def loss(
        self, queries: Tensor, targets: Tensor | None, global_views: int | None = None
    ) -> dict[str, Tensor]:
        """Compare predictions with keys (see :class:`Framework`)."""
        assert targets is not None
        (queries, keys), ring = exchanged(self.exchange, queries, targets)
        return self.objective.parts(pairs_with_keys(self.objective, queries, keys, ring))

    def after_step(self, step: int, total: int) -> None:
        """Update the momentum encoder."""
        self.key_encoder.follow([self.encoder, self.head], ema_at(self.ema, self.ema_schedule, step, total))

    @classmethod
    def default_head(cls, transformer: bool) -> str:
        """As in MoCo v3: three layers for transformers, two for others."""
        return "moco_v3_vit" if transformer else "moco_v3"

    @classmethod
    def default_options(cls, facts: Facts) -> dict[str, Any]:
        """A momentum that suits the encoder and the length of the run."""
        most = EMA_TRANSFORMER if facts.transformer else EMA_CONVOLUTIONS
        return {"ema": default_ema(most, facts.steps)}

    @classmethod
    def option_problems(cls, given: Mapping[str, Any]) -> list[str]:
        """Problems with ``ema``: it must be in [0, 1]."""
        return ema_problems(given)

    def negatives(self, images: int, views: int) -> NegativeCount:
        """Negatives of one query (see :class:`Framework`)."""
        found = batch_negatives(self.objective.negatives, images, views)
        return NegativeCount(found.number, f"momentum keys of {found.origin}")
