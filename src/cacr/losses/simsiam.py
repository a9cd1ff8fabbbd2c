"""Predict another view of the same network, without negatives (SimSiam)."""

from torch import Tensor

from cacr.losses.engine.pairs import Pairs, positives_only
from cacr.losses.objective import OBJECTIVES, PairObjective


@OBJECTIVES.register("simsiam")
class SimSiamLoss(PairObjective):
    """SimSiam: the negative cosine between a prediction and the target of another view.

    The mean over queries and their positives of -q.k, half of BYOL's gradient. Call it with
    ``momentum(predictions, projections.detach())``; without the predictor and the stopped gradient it collapses.
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
        return {"loss": -pairs.average(pairs.positives, pairs.absent)}
