"""Crop, resize and flip of one image of any size, in a loader's worker."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import interpolate

from cacr.views.augmentation import Augmentation
from cacr.views.draws import draw_crops


def cut_out(image: Image.Image, run: Sequence[Augmentation], generator: torch.Generator) -> Tensor:
    """Views of one image, cropped, resized, flipped and turned.

    Args:
        image: RGB, of any size.
        run: What each view goes through; all of one size and filter.
        generator: On the CPU.

    Returns:
        uint8 (views, 3, size, size).
    """
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).unsqueeze(0)
    crops = draw_crops(run, 1, image.height, image.width, generator)
    size = run[0].size
    scale = crops.extent / size
    resized = ((crops.high - crops.low) / scale).round().int().tolist()
    offset = ((crops.start - crops.low) / scale).round().int().tolist()
    low, high = crops.low.int().tolist(), crops.high.int().tolist()
    flip, turn = crops.flip.tolist(), crops.turn.tolist()
    made = torch.empty(len(run), 3, size, size, dtype=torch.uint8)
    for i in range(len(run)):
        region = pixels[:, :, low[i][0] : high[i][0], low[i][1] : high[i][1]]
        # on uint8 images in channels-last order this is Pillow's filter, at several times the speed
        region = region.contiguous(memory_format=torch.channels_last)
        whole = interpolate(region, resized[i], mode=run[0].interpolation, antialias=True)
        top, left = offset[i]
        made[i] = whole[0, :, top : top + size, left : left + size]
        if flip[i]:
            made[i] = made[i].flip(2)
        if turn[i]:
            made[i] = made[i].rot90(turn[i], (1, 2))
    return made


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
