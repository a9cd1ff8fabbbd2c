"""Features as linear classifiers see them."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class Scaling:
    """Batch norm without parameters, and a basis of the training features' span where they are few.

    y = (x - mean) / scale, expressed in the basis. Gradients of a linear classifier's weights lie in the span of
    the training features: what its first weights have outside of it is never learned, so the basis changes no
    prediction and saves nearly all the work with few labels.

    Attributes:
        mean: (d,).
        scale: (d,).
        basis: (d, r) orthonormal, or None for all of the space.
    """

    mean: Tensor
    scale: Tensor
    basis: Tensor | None

    @classmethod
    def of(cls, mean: Tensor, scale: Tensor, few: Tensor | None) -> Self:
        """The scaling with the basis of ``few`` training features (n, d), or without one."""
        scale = torch.where(scale > 0, scale, 1.0)  # constant features say nothing, and must not say nan
        if few is None:
            return cls(mean, scale, None)
        return cls(mean, scale, torch.linalg.svd((few - mean) / scale, full_matrices=False).Vh.T)

    def __call__(self, features: Tensor) -> Tensor:
        """(n, d) -> (n, r)."""
        scaled = (features - self.mean) / self.scale
        return scaled if self.basis is None else scaled @ self.basis

    def outside(self, features: Tensor) -> Tensor:
        """(n, d), the part that the basis leaves over."""
        scaled = (features - self.mean) / self.scale
        return torch.zeros_like(scaled) if self.basis is None else scaled - scaled @ self.basis @ self.basis.T
