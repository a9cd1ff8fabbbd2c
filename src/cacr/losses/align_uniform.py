"""Alignment and uniformity (AU-CL)."""

import torch
from torch import Tensor

from cacr.losses.engine.arguments import check_not_negative, check_positive
from cacr.losses.engine.pairs import Pairs
from cacr.losses.engine.reductions import Backend, lse
from cacr.losses.objective import OBJECTIVES, PairObjective


def alignment_of(pairs: Pairs, alpha: float = 2.0) -> Tensor:
    """The mean of ||x - x+||^alpha over queries and their positives."""
    # For alpha < 2 the power of a zero distance has no finite slope: a smallest distance is used instead.
    squared = (2 - 2 * pairs.positives).clamp_min(torch.finfo(pairs.positives.dtype).eps ** 2)
    return pairs.average(squared ** (alpha / 2), pairs.absent)


def uniformity_of(pairs: Pairs, t: float = 2.0, backend: Backend = "auto") -> Tensor:
    """The mean over groups of ln mean_i mean_j exp(-t ||x_i - x_j||^2), queries i and their negatives j."""
    kernel = lse(pairs.queries, pairs.negatives, 2 * t, backend=backend) - 2 * t - pairs.log_count()
    return pairs.log_mean_exp(kernel).mean()


@OBJECTIVES.register("align_uniform")
class AlignUniformLoss(PairObjective):
    """AU-CL: bring positives together and distribute each view uniformly over the sphere.

        alignment  = mean over pairs of views of mean_i ||x_i - y_i||^alpha
        uniformity = mean over views of ln mean_{i != j} exp(-t ||x_i - x_j||^2)
        loss = align alignment + uniform uniformity

    The log is outside the mean over queries, and there is no temperature.

    Args:
        alpha: Power of the distance in the alignment.
        t: Precision of the kernel in the uniformity.
        align: Factor of the alignment.
        uniform: Factor of the uniformity.
    """

    supports_ring = True

    def __init__(self, alpha: float = 2.0, t: float = 2.0, align: float = 1.0, uniform: float = 1.0) -> None:
        super().__init__()
        check_positive(alpha=alpha, t=t)
        check_not_negative(align=align, uniform=uniform)
        self.alpha, self.t, self.align, self.uniform = alpha, t, align, uniform

    def of(self, pairs: Pairs) -> dict[str, Tensor]:
        """``loss``, ``align`` and ``uniform``: alignment and uniformity before their factors."""
        align, uniform = alignment_of(pairs, self.alpha), uniformity_of(pairs, self.t, self.backend)
        return {
            "loss": self.align * align + self.uniform * uniform,
            "align": align,
            "uniform": uniform,
        }
