"""Redundancy reduction (Barlow Twins)."""

from itertools import combinations

import torch
from torch import Tensor

from cacr.losses.engine.arguments import check_positive
from cacr.losses.engine.full_precision import full_precision
from cacr.losses.objective import OBJECTIVES, Objective


@OBJECTIVES.register("barlow_twins")
class BarlowTwinsLoss(Objective):
    """Barlow Twins: make the cross-correlation of two views the identity.

    With each dimension of each view normalised to mean 0 and variance 1 over the batch and C = x^T y / M, the mean
    over pairs of views of

        sum_a (1 - C_aa)^2 + redundancy sum_{a != b} C_ab^2

    Args:
        redundancy: Factor of the off-diagonal terms.
        eps: Added to the variance, which is 0 if a dimension is the same for all images.
    """

    has_negatives = False
    local_crops = False

    def __init__(self, redundancy: float = 0.0051, eps: float = 1e-5) -> None:
        super().__init__()
        check_positive(redundancy=redundancy, eps=eps)
        self.redundancy, self.eps = redundancy, eps

    def of_views(self, z: Tensor, global_views: int | None = None) -> dict[str, Tensor]:
        """``loss``, ``invariance`` (the diagonal) and ``redundancy`` (the rest, before its factor)."""
        if z.dim() != 3 or z.shape[0] < 2 or z.shape[1] < 2:
            raise ValueError(
                f"z must be (views, images, dim) with 2 or more of the first two, not {tuple(z.shape)}"
            )
        z = z.to(torch.promote_types(z.dtype, torch.float32))
        z = (z - z.mean(1, keepdim=True)) * (z.var(1, correction=0, keepdim=True) + self.eps).rsqrt()
        views = list(combinations(range(len(z)), 2))
        with full_precision(z.device):
            correlation = z[[v for v, _ in views]].mT @ z[[w for _, w in views]] / z.shape[1]
        diagonal = correlation.diagonal(dim1=-2, dim2=-1)
        invariance = (1 - diagonal).square().sum(-1).mean()
        rest = (correlation.square().sum((-2, -1)) - diagonal.square().sum(-1)).mean()
        return {"loss": invariance + self.redundancy * rest, "invariance": invariance, "redundancy": rest}
