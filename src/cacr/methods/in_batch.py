"""The in-batch framework: negatives are the other images of the batch, as in SimCLR."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cacr.encoders import Encoder, normalise_per_view
from cacr.losses import BYOLLoss, Objective, SimSiamLoss
from cacr.methods.framework import FRAMEWORKS, Framework, Negatives
from cacr.methods.gather import gather


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
        """Embeddings (views, images, dim) of this process's images, all views of one size in one forward."""
        parts = []
        for x in views:
            count, images = x.shape[:2]
            for module in (self.encoder, self.head):
                normalise_per_view(module, count if self.batch_norm == "per_view" else 1)
            parts.append(self.head(self.encoder(x.flatten(0, 1))).unflatten(0, (count, images)))
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def forward(self, views: Sequence[Tensor]) -> dict[str, Tensor]:
        """Named parts of the loss of the global batch (see :class:`Framework`)."""
        return self.objective.parts(gather(self.embed(views)))

    @classmethod
    def refusal(cls, objective: Objective) -> str | None:
        """Objectives without negatives need a predictor and a held target, or everything becomes one point."""
        if isinstance(objective, BYOLLoss | SimSiamLoss):
            return "in_batch has no predictor and no held target: without them this objective collapses"
        return None

    def negatives(self, images: int, views: int) -> Negatives:
        """Negatives of one query (see :class:`Framework`)."""
        others = images - 1
        match self.objective.negatives:
            case "all":
                return Negatives(views * others, "all views of the other images in the batch")
            case "cross" | "cross_upper":
                return Negatives(
                    others, "another view of the other images in the batch, for each pair of views"
                )
            case _:
                return Negatives(others, "the other images in the batch, same view")
