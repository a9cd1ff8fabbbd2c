"""Crop, resize and flip one image of any size, in a loader worker."""

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
    """Views of one image, cropped, resized, flipped and rotated.

    Args:
        image: RGB, or float32 (channels, height, width) from 0 to 255, of any size.
        run: Augmentation of each view; all with the same size and filter.
        generator: On the CPU.

    Returns:
        (views, channels, size, size), uint8 for RGB, otherwise float32.
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
    with torch.inference_mode():  # for speed; the views are still ordinary tensors
        for i in range(len(run)):
            region = pixels[:, :, low[i][0] : high[i][0], low[i][1] : high[i][1]]
            # for uint8 images in channels-last order this is Pillow's filter, but several times faster
            region = region.contiguous(memory_format=torch.channels_last)
            whole = interpolate(region, resized[i], mode=run[0].interpolation, antialias=True)
            top, left = offset[i]
            view = whole[0, :, top : top + size, left : left + size]
            if flip[i]:
                view = view.flip(2)
            if turn[i]:
                view = view.rot90(turn[i], (1, 2))
            made[i] = view
    return made.clamp_(0, 255) if made.is_floating_point() else made  # the cubic filter can overshoot


def shortest_side(view: Augmentation) -> int:
    """Shorter side at which even the smallest crop has at least one image pixel per pixel of the view.

    A larger image may be decoded at a fraction of its size if its shorter side stays at least this long. An average
    crop then has about two image pixels per pixel, and the difference to full decoding is not visible.
    """
    if view.scale is None:
        assert view.resize is not None
        return 2 * view.resize
    smallest = math.sqrt(view.scale[0] / max(view.ratio[1], 1 / view.ratio[0]))
    return math.ceil(view.size / smallest)
