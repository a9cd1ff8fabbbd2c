"""Test images: smooth colours, edges and noise, so that every filter and colour step has something to do."""

import torch
from torch import Tensor


def photos(count: int, height: int, width: int, seed: int = 0) -> Tensor:
    """uint8 (count, 3, height, width)."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(count, 3, 4, 4, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, (height, width), mode="bicubic", align_corners=False)
    noise = 0.15 * torch.randn(count, 3, height, width, generator=generator)
    images = (smooth + noise).clamp(0, 1)
    images[:, :, height // 3 : height // 2, : width // 2] = torch.rand(count, 3, 1, 1, generator=generator)
    images[:, :, -4:, -6:] = 1.0  # grey corners: hue undefined
    images[:, :, :3, -6:] = 0.0
    return (images * 255).round().to(torch.uint8)
