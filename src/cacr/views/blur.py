"""Gaussian blur of a batch, each image with its own width."""

import torch
from torch import Tensor


def kernel(sigma: Tensor, radius: Tensor) -> Tensor:
    """Half of each item's normalised kernel, w(d) ~ exp(-d^2 / 2 sigma^2) for distances d = 0 .. radius.

    Args:
        sigma: (items,).
        radius: (items,) taps to each side.

    Returns:
        (items, largest radius + 2) float32; the last column, and all beyond an item's radius, are zero.
    """
    distance = torch.arange(int(radius.max()) + 2, dtype=torch.float64)
    half = torch.exp(-0.5 * (distance / sigma[:, None].double()) ** 2) * (distance <= radius[:, None])
    return (half / (2 * half.sum(dim=1, keepdim=True) - half[:, :1])).float()


def blur(planes: Tensor, sigma: Tensor, radius: Tensor) -> None:
    """Separable Gaussian blur with reflected borders, in place.

    Args:
        planes: (3, items, size, size).
        sigma: (items,) 0 for no blur.
        radius: (items,) taps to each side, less than size.
    """
    index = (sigma > 0).nonzero().squeeze(1)
    if not len(index):
        return
    half = kernel(sigma[index], radius[index])
    matrix = _blur_matrix(half, planes.shape[-1]).to(planes.device)
    index = index.to(planes.device)
    for plane in planes:
        plane[index] = matrix @ plane[index] @ matrix.transpose(1, 2)


def _blur_matrix(half: Tensor, size: int) -> Tensor:
    """(items, size, size): row i weighs the input for output pixel i; beyond a border, its mirror image."""
    beyond = half.shape[1] - 1
    i, j = torch.arange(size)[:, None], torch.arange(size)
    plain = (i - j).abs()
    left = torch.where(j >= 1, i + j, beyond)
    right = torch.where(j <= size - 2, 2 * (size - 1) - i - j, beyond)
    return sum(half[:, distance.clamp_max(beyond)] for distance in (plain, left, right))  # type: ignore[return-value]
