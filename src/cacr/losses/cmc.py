"""Contrastive multiview coding, with augmentations as views."""

from torch import Tensor

from cacr.losses.engine.arguments import check_positive
from cacr.losses.engine.pairs import Negatives, Pairs
from cacr.losses.info_nce import one_vs_many
from cacr.losses.objective import OBJECTIVES, PairObjective


@OBJECTIVES.register("cmc")
class CMCLoss(PairObjective):
    """CMC: InfoNCE between each pair of views, with negatives only from the other view.

    The mean over ordered pairs of views (v, w) and images i of

        -ln(e^{z_vi.z_wi / tau} / sum_j e^{z_vi.z_wj / tau})

    which is CMC's full graph, divided by the number of pairs so that the learning rate does not depend on it.

    Args:
        temperature: tau.
    """

    negatives: Negatives = "cross"
    supports_ring = True

    def __init__(self, temperature: float = 0.19) -> None:
        super().__init__()
        check_positive(temperature=temperature)
        self.temperature = temperature

    def of(self, pairs: Pairs) -> dict[str, Tensor]:
        """``loss``, and ``positive``, the mean squared distance of positives."""
        positives, absent = pairs.opposed()
        losses = one_vs_many(pairs, 1 / self.temperature, self.backend)
        return {"loss": pairs.average(losses, absent), "positive": pairs.average(2 - 2 * positives, absent)}
