"""Prepare features for comparisons: centre them, and scale their principal directions."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

ReaderKind = Literal["raw", "centred", "half_white", "white"]

BLOCK = 2**22
"""Largest number of feature values in double precision at a time."""


@dataclass(frozen=True, eq=False)
class Reader:
    """A linear map of features, (x - mean) map; the cosine of its outputs measures the similarity of two images.

    Attributes:
        kind: ``raw`` (features unchanged), ``centred``, ``half_white`` or ``white``.
        images: Number of images that it was fitted on.
        mean: (feature_dim,) float32.
        map: (feature_dim, dim) float32; None for raw and centred.
    """

    kind: ReaderKind
    images: int
    mean: Tensor
    map: Tensor | None = None

    @property
    def dim(self) -> int:
        """Dimension of the output."""
        return len(self.mean) if self.map is None else self.map.shape[1]

    @torch.no_grad()
    def __call__(self, features: Tensor, out: Tensor | None = None) -> Tensor:
        """Features (n, feature_dim) prepared for comparisons, (n, dim) float32, on the same device.

        Small directions are scaled up, so the computation is in double precision, block by block.

        Args:
            features: Features of the encoder that it was fitted for.
            out: Where to write, such as rows of a file; by default a new tensor. Not used by ``raw``, which returns
                the features themselves.
        """
        if self.kind == "raw":
            return features
        mean = self.mean.to(features.device, torch.float64)
        turned = None if self.map is None else self.map.to(features.device, torch.float64)
        read = features.new_empty(len(features), self.dim, dtype=torch.float32) if out is None else out
        rows = max(1, BLOCK // features.shape[1])
        for start in range(0, len(features), rows):
            block = features[start : start + rows].double() - mean
            read[start : start + rows] = block if turned is None else block @ turned
        return read
