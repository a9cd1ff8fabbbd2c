"""Scale features for linear classifiers."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class Scaling:
    """Batch norm without parameters, and a basis of the span of the training features if they are few.

    y = (x - mean) / scale, in the coordinates of the basis. The gradients of a linear classifier's weights are in the
    span of the training features. Its initial weights outside of the span never change, so the basis changes no
    prediction, and saves nearly all the work with few labels.

    Attributes:
        mean: (d,).
        scale: (d,).
        basis: (d, r) orthonormal, or None for the whole space.
    """

    mean: Tensor
    scale: Tensor
    basis: Tensor | None

    @classmethod
    def of(cls, mean: Tensor, scale: Tensor, few: Tensor | None) -> Self:
        """The scaling with the basis of ``few`` training features (n, d), or without one."""
        scale = torch.where(scale > 0, scale, 1.0)  # constant features must not become nan
        if few is None:
            return cls(mean, scale, None)
        return cls(mean, scale, torch.linalg.svd((few - mean) / scale, full_matrices=False).Vh.T)

    def __call__(self, features: Tensor) -> Tensor:
        """(n, d) -> (n, r)."""
        scaled = (features - self.mean) / self.scale
        return scaled if self.basis is None else scaled @ self.basis

    def outside(self, features: Tensor) -> Tensor:
        """(n, d): the part outside of the basis."""
        scaled = (features - self.mean) / self.scale
        return torch.zeros_like(scaled) if self.basis is None else scaled - scaled @ self.basis @ self.basis.T
