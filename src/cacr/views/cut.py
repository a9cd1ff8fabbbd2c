"""Crop, resize and flip of one image of any size, with Pillow, in a loader's worker."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from cacr.views.augmentation import Augmentation
from cacr.views.draws import draw_crops

_FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def cut_out(image: Image.Image, run: Sequence[Augmentation], generator: torch.Generator) -> Tensor:
    """Views of one image, cropped, resized and flipped.

    Args:
        image: RGB, of any size.
        run: What each view goes through; all of one size and filter.
        generator: On the CPU.

    Returns:
        uint8 (views, 3, size, size).
    """
    crops = draw_crops(run, 1, image.height, image.width, generator)
    size, filter = run[0].size, _FILTERS[run[0].interpolation]
    made = np.empty((len(run), size, size, 3), dtype=np.uint8)
    low, high = crops.low.int().flip(1), crops.high.int().flip(1)
    start = (crops.start - crops.low).flip(1)
    # as Pillow has them: left, top, right, bottom
    regions = torch.cat([low, high], dim=1).tolist()
    boxes = torch.cat([start, start + crops.extent.flip(1)], dim=1).tolist()
    for view, region, box, flip in zip(made, regions, boxes, crops.flip.tolist(), strict=True):
        # Pillow's filter reads beyond its box, so what it may read is cut out first
        pixels = np.asarray(image.crop(region).resize((size, size), filter, box=box))
        view[:] = pixels[:, ::-1] if flip else pixels
    return torch.from_numpy(made).permute(0, 3, 1, 2)


def shortest_side(view: Augmentation) -> int:
    """Shorter side from which even the smallest crop still has a pixel for every pixel of the view.

    A larger image may be decoded at a fraction of its size as long as its shorter side stays this long. An
    ordinary crop then has about two pixels for one, and the difference to a full decode cannot be seen.
    """
    if view.scale is None:
        assert view.resize is not None
        return 2 * view.resize
    smallest = math.sqrt(view.scale[0] / max(view.ratio[1], 1 / view.ratio[0]))
    return math.ceil(view.size / smallest)
