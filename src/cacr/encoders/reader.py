"""How features are read before they are compared: centred, and their principal directions made alike."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

ReaderKind = Literal["raw", "centred", "half_white", "white"]

BLOCK = 2**22
"""Numbers of features that are held in double precision at once."""


@dataclass(frozen=True, eq=False)
class Reader:
    """A linear map of features, (x - mean) map; the cosine of what it gives says how alike two images are.

    Attributes:
        kind: ``raw`` (features as they are), ``centred``, ``half_white`` or ``white``.
        images: Images that it was fitted on.
        mean: (feature_dim,) float32.
        map: (feature_dim, dim) float32; None where features keep their directions (raw and centred).
    """

    kind: ReaderKind
    images: int
    mean: Tensor
    map: Tensor | None = None

    @property
    def dim(self) -> int:
        """Dimension of what it gives."""
        return len(self.mean) if self.map is None else self.map.shape[1]

    @torch.no_grad()
    def __call__(self, features: Tensor, out: Tensor | None = None) -> Tensor:
        """Features (n, feature_dim) as they are to be compared, (n, dim) float32, on the same device.

        Small directions are blown up, so the arithmetic is in double precision, a block at a time.

        Args:
            features: Of the encoder that it was fitted for.
            out: Where to write, such as rows of a file; made in memory by default. Not used by ``raw``, which gives
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
