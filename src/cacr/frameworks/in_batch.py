"""The in-batch framework: negatives are the other images of the batch, as in SimCLR."""

from collections.abc import Sequence

from torch import Tensor, nn

from cacr.encoders import Encoder
from cacr.frameworks.framework import FRAMEWORKS, Framework, NegativeCount, batch_negatives, encode_views
from cacr.frameworks.gather import exchanged
from cacr.losses import BYOLLoss, Objective, SimSiamLoss, in_batch


@FRAMEWORKS.register("in_batch")
class InBatch(Framework):
    """Negatives from the batch itself: one encoder, any number of views, gradients to queries and keys.

    Args:
        encoder: images (n, 3, s, s) -> features.
        head: features -> embeddings.
        objective: embeddings (views, images, dim) -> named parts of the loss.
        batch_norm: statistics ``per_view``, as if each view had its own forward, or ``joint``.
    """

    def __init__(
        self, encoder: Encoder, head: nn.Module, objective: Objective, *, batch_norm: str = "per_view"
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.objective = objective
        self.batch_norm = batch_norm

    def embed(self, views: Sequence[Tensor]) -> Tensor:
        """Embeddings (views, images, dim) of this process's images."""
        return encode_views(views, self.encoder, self.head, batch_norm=self.batch_norm)

    def loss(self, queries: Tensor, targets: Tensor | None) -> dict[str, Tensor]:
        """Every view is query and key of the others (see :class:`Framework`)."""
        (z,), ring = exchanged(self.exchange, queries)
        return self.objective.parts(z if ring is None else in_batch(z, self.objective.negatives, ring=ring))

    @classmethod
    def refusal(cls, objective: Objective, *, local: bool = False) -> str | None:
        """Objectives without negatives need a predictor and a held target, or everything becomes one point."""
        if isinstance(objective, BYOLLoss | SimSiamLoss):
            return "in_batch has no predictor and no held target: without them this objective collapses"
        return None

    def negatives(self, images: int, views: int) -> NegativeCount:
        """Negatives of one query (see :class:`Framework`)."""
        return batch_negatives(self.objective.negatives, images, views)
