"""The detections of an image."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cacr.data.masks import require_pycocotools
from cacr.data.source import Indices

MASK_THRESHOLD = 0.5
"""Smallest probability of a pixel that belongs to an object."""


@dataclass(frozen=True)
class Found:
    """Detections of one image, the most confident first.

    Attributes:
        boxes: (n, 4) float32: left, top, right, bottom in pixels.
        scores: (n,) in [0, 1].
        classes: (n,) class numbers, from 0.
        masks: Run lengths in the format of pycocotools; None without masks.
    """

    boxes: NDArray[np.float32]
    scores: NDArray[np.float32]
    classes: Indices
    masks: tuple[dict[str, Any], ...] | None = None

    def __len__(self) -> int:
        return len(self.boxes)


def found_of(output: dict[str, Tensor]) -> Found:
    """The detections in torchvision's output for one image; masks become run lengths, which take little memory."""
    masks = None
    if "masks" in output:
        codes = require_pycocotools()
        inside = (output["masks"][:, 0] >= MASK_THRESHOLD).cpu().numpy().astype(np.uint8)
        masks = tuple(codes.encode(np.asfortranarray(pixels)) for pixels in inside)
    boxes, scores, labels = (output[name].detach().cpu() for name in ("boxes", "scores", "labels"))
    return Found(boxes.to(torch.float32).numpy(), scores.to(torch.float32).numpy(), labels.numpy() - 1, masks)
