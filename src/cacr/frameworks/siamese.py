"""The siamese framework: SimSiam, whose target is the projection of another view, without gradient."""

from collections.abc import Sequence
from typing import ClassVar, Unpack

import torch
from torch import Tensor, nn

from cacr.encoders import Encoder
from cacr.frameworks.framework import (
    FRAMEWORKS,
    Framework,
    NegativeCount,
    Shared,
    batch_negatives,
    encode_views,
    pairs_with_keys,
)
from cacr.frameworks.gather import exchanged
from cacr.losses import Objective


@FRAMEWORKS.register("siamese")
class Siamese(Framework):
    """SimSiam: predictions compared with projections of the same pass; no second encoder, no second forward pass.

    A query is made by encoder, head (projector) and predictor from any crop; a key is made by encoder and head from a
    global crop, in the same forward pass and without gradient.

    Args:
        encoder: as for :class:`Framework`.
        head: features -> embeddings, the projector.
        objective: pairs -> named parts of the loss.
        predictor: embeddings -> predictions of the same dimension.
        constant_predictor: the predictor keeps the peak learning rate while the schedule lowers that of others.
        shared: as for :class:`Framework`.
    """

    has_predictor = True
    holds_targets = True
    rows_per_view = 2
    default_predictor = "simsiam"
    sync_batch_norm = True
    objective_defaults: ClassVar = {"pos_grad": False, "negatives": "cross"}

    def __init__(
        self,
        encoder: Encoder,
        head: nn.Module,
        objective: Objective,
        *,
        predictor: nn.Module,
        constant_predictor: bool = True,
        **shared: Unpack[Shared],
    ) -> None:
        super().__init__(encoder, head, objective, **shared)
        self.predictor = predictor
        self.constant_predictor = constant_predictor

    def embed(self, views: Sequence[Tensor]) -> Tensor:
        """Predictions of all crops, followed by their projections without gradient: (2 views, images, dim)."""
        predicted, projected = [], []
        for x in views:  # one size after the other, for batch norm
            z = encode_views([x], self.encoder, self.head, batch_norm=self.batch_norm)
            predicted.append(encode_views([z], self.predictor, batch_norm=self.batch_norm))
            projected.append(z.detach())
        return torch.cat([*predicted, *projected])

    def loss(
        self, queries: Tensor, targets: Tensor | None, global_views: int | None = None
    ) -> dict[str, Tensor]:
        """Compare predictions with the projections of other views (see :class:`Framework`)."""
        predictions, projections = queries.chunk(2)
        if not self.objective.local_keys:
            projections = projections[:global_views]
        (queries, keys), ring = exchanged(self.exchange, predictions, projections.detach())
        return self.objective.parts(pairs_with_keys(self.objective, queries, keys, ring))

    def constant_rate(self) -> list[nn.Module]:
        """The predictor, if ``constant_predictor``."""
        return [self.predictor] if self.constant_predictor else []

    def negatives(self, images: int, views: int) -> NegativeCount:
        """Negatives of one query (see :class:`Framework`)."""
        found = batch_negatives(self.objective.negatives, images, views)
        return NegativeCount(found.number, f"projections (without gradient) of {found.origin}")

    @classmethod
    def default_head(cls, transformer: bool) -> str:
        """SimSiam's."""
        return "simsiam"
