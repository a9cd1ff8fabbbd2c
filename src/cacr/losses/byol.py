"""Predict the target of another view, without negatives (BYOL)."""

from torch import Tensor

from cacr.losses.engine.pairs import Pairs, positives_only
from cacr.losses.objective import OBJECTIVES, PairObjective


@OBJECTIVES.register("byol")
class BYOLLoss(PairObjective):
    """BYOL: the squared distance between a prediction and the target of another view.

    The mean over queries and their positives of ||q - k||^2 = 2 - 2 q.k. Call it with
    ``momentum(predictions, targets.detach())``; without a predictor and a target without gradient it collapses.
    """

    has_negatives = False
    needs_predictor = True
    supports_ring = True

    def of_views(self, z: Tensor, global_views: int | None = None) -> dict[str, Tensor]:
        """``loss``, from the embeddings of one batch."""
        keys = self.key_views(global_views)
        return self.of(positives_only(z, z if keys is None else z[: len(keys)]))

    def of(self, pairs: Pairs) -> dict[str, Tensor]:
        """``loss``."""
        return {"loss": pairs.average(2 - 2 * pairs.positives, pairs.absent)}
