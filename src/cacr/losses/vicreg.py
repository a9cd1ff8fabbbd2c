"""Variance, invariance and covariance (VICReg)."""

from itertools import combinations

import torch
from torch import Tensor
from torch.nn.functional import relu

from cacr.losses.engine.arguments import check_not_negative, check_positive
from cacr.losses.engine.full_precision import full_precision
from cacr.losses.objective import OBJECTIVES, Objective


@OBJECTIVES.register("vicreg")
class VICRegLoss(Objective):
    """VICReg: equal views, dimensions that vary and are not correlated.

    Embeddings are not normalised. With C_v the covariance of view v over the batch:

        invariance = mean over pairs of views, images and dimensions of (z_v - z_w)^2
        variance   = mean over views and dimensions of max(0, 1 - sqrt(C_v,aa + eps))
        covariance = 2 mean over views of sum_{a != b} C_v,ab^2 / dim
        loss = invariance_weight invariance + variance_weight variance + covariance_weight covariance

    With two views this is the authors' code.

    Args:
        invariance_weight: Factor of the invariance.
        variance_weight: Factor of the variance.
        covariance_weight: Factor of the covariance.
        eps: Added to the variance.
    """

    has_negatives = False
    local_crops = False

    def __init__(
        self,
        invariance_weight: float = 25.0,
        variance_weight: float = 25.0,
        covariance_weight: float = 1.0,
        eps: float = 1e-4,
    ) -> None:
        super().__init__()
        check_not_negative(
            invariance_weight=invariance_weight,
            variance_weight=variance_weight,
            covariance_weight=covariance_weight,
        )
        check_positive(eps=eps)
        self.weights = (invariance_weight, variance_weight, covariance_weight)
        self.eps = eps

    def of_views(self, z: Tensor, global_views: int | None = None) -> dict[str, Tensor]:
        """``loss``, ``invariance``, ``variance`` and ``covariance``, the latter three before their factors."""
        if z.dim() != 3 or z.shape[0] < 2 or z.shape[1] < 2:
            raise ValueError(
                f"z must be (views, images, dim) with 2 or more of the first two, not {tuple(z.shape)}"
            )
        z = z.to(torch.promote_types(z.dtype, torch.float32))
        pairs = list(combinations(range(len(z)), 2))
        invariance = (z[[v for v, _ in pairs]] - z[[w for _, w in pairs]]).square().mean()
        centred = z - z.mean(1, keepdim=True)
        with full_precision(z.device):
            covariances = centred.mT @ centred / (z.shape[1] - 1)
        diagonal = covariances.diagonal(dim1=-2, dim2=-1)
        variance = relu(1 - (diagonal + self.eps).sqrt()).mean()
        rest = covariances.square().sum((-2, -1)) - diagonal.square().sum(-1)
        terms = (invariance, variance, 2 * rest.mean() / z.shape[2])
        loss = torch.stack([weight * term for weight, term in zip(self.weights, terms, strict=True)]).sum()
        return {"loss": loss, "invariance": terms[0], "variance": terms[1], "covariance": terms[2]}
