"""Predicting another view of the same network, without negatives (SimSiam)."""

from torch import Tensor

from cacr.losses.engine.pairs import Pairs, positives_only
from cacr.losses.objective import OBJECTIVES, PairObjective


@OBJECTIVES.register("simsiam")
class SimSiamLoss(PairObjective):
    """SimSiam: the negative cosine of a prediction with another view's target.

    The mean over queries and their positives of -q.k, half of BYOL's gradient. Call it with
    ``momentum(predictions, projections.detach())``; without the predictor and the stop it collapses.
    """

    needs_predictor = True
    supports_ring = True

    def of_views(self, z: Tensor) -> dict[str, Tensor]:
        """``loss``, from the embeddings of one batch."""
        return self.of(positives_only(z))

    def of(self, pairs: Pairs) -> dict[str, Tensor]:
        """``loss``."""
        return {"loss": -pairs.average(pairs.positives, pairs.absent)}
