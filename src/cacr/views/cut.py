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


def cut_out(image: Image.Image | Tensor, run: Sequence[Augmentation], generator: torch.Generator) -> Tensor:
    """Views of one image, cropped, resized, flipped and turned.

    Args:
        image: RGB, or float32 (channels, height, width) from 0 to 255, of any size.
        run: What each view goes through; all of one size and filter.
        generator: On the CPU.

    Returns:
        (views, channels, size, size), uint8 of RGB and else float32.
    """
    if isinstance(image, Tensor):
        pixels = image.unsqueeze(0)
    else:
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).unsqueeze(0)
    crops = draw_crops(run, 1, pixels.shape[2], pixels.shape[3], generator)
    size = run[0].size
    scale = crops.extent / size
    resized = ((crops.high - crops.low) / scale).round().int().tolist()
    offset = ((crops.start - crops.low) / scale).round().int().tolist()
    low, high = crops.low.int().tolist(), crops.high.int().tolist()
    flip, turn = crops.flip.tolist(), crops.turn.tolist()
    made = torch.empty(len(run), pixels.shape[1], size, size, dtype=pixels.dtype)
    with torch.inference_mode():  # for its speed; the views stay ordinary tensors
        for i in range(len(run)):
            region = pixels[:, :, low[i][0] : high[i][0], low[i][1] : high[i][1]]
            # on uint8 images in channels-last order this is Pillow's filter, at several times the speed
            region = region.contiguous(memory_format=torch.channels_last)
            whole = interpolate(region, resized[i], mode=run[0].interpolation, antialias=True)
            top, left = offset[i]
            view = whole[0, :, top : top + size, left : left + size]
            if flip[i]:
                view = view.flip(2)
            if turn[i]:
                view = view.rot90(turn[i], (1, 2))
            made[i] = view
    return made.clamp_(0, 255) if made.is_floating_point() else made  # the cubic filter overshoots


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
