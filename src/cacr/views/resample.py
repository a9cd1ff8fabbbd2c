"""Crop, antialiased resize, flip and quarter turns of a batch: two small matrix products per image."""

import math

import torch
from torch import Tensor

from cacr.feature_view import Interpolation
from cacr.views.draws import Crops
from cacr.views.workspace import Workspace


class Resampler:
    """The separable resize filter of Pillow and torchvision, with a different window for each image.

    Along one axis, output pixel i of ``size`` is centred at c_i = start + (i + 1/2) extent / size; the weight of
    input pixel j is f((j + 1/2 - c_i) / max(extent / size, 1)), normalised to sum one over the pixels that may be
    read; f is the triangle or the cubic (a = -1/2) kernel. Flips are the same filter with its rows in reverse order.
    A view M that is flipped and rotated by k quarter turns is a flip of its rows, one of its columns, and for odd k a
    transpose, which all permute pixels: rot90(M, 1) = fliplr(M)^T, rot90(M, 2) = flipud(fliplr(M)), rot90(M, 3) =
    flipud(M)^T.

    Args:
        crops: The windows of all items, on the CPU.
        height: Height of the images.
        width: Width of the images.
        size: Side of the output.
        interpolation: The kernel.
        device: Device of the images.
    """

    def __init__(
        self,
        crops: Crops,
        height: int,
        width: int,
        size: int,
        interpolation: Interpolation,
        device: torch.device,
    ) -> None:
        self.size, self.interpolation = size, interpolation
        scale = (crops.extent / size).T.unsqueeze(2)  # (2, items, 1)
        step = torch.arange(size) + 0.5
        reversed_rows = crops.turn >= 2
        reversed_columns = crops.flip ^ ((crops.turn == 1) | (crops.turn == 2))
        steps = torch.where(torch.stack([reversed_rows, reversed_columns])[:, :, None], size - step, step)
        centre = (crops.start.T.unsqueeze(2) + steps * scale - 0.5).float()
        reach = scale.clamp_min(1).float()
        self._centre = centre.to(device, non_blocking=True).unsqueeze(3)  # (2, items, size, 1)
        self._reach = reach.to(device, non_blocking=True).unsqueeze(3)  # (2, items, 1, 1)
        self._transposed = crops.turn % 2 == 1
        self._position = []  # of input pixels; infinite for pixels that may not be read
        for axis, length in enumerate((height, width)):
            pixel = torch.arange(length)
            low, high = crops.low[:, axis, None], crops.high[:, axis, None]
            position = torch.where((pixel < low) | (pixel >= high), math.inf, pixel)
            self._position.append(position.to(device, non_blocking=True).unsqueeze(1))  # (items, 1, length)

    def __call__(self, images: Tensor, first: int, workspace: Workspace) -> Tensor:
        """Crop, resize, flip and rotate.

        Args:
            images: uint8 (items, 3, height, width).
            first: Number of the first image among all items.
            workspace: For temporary values and for the result, which is valid until the next call.

        Returns:
            Float32 planes (3, items, size, size) in [0, 1].
        """
        items, channels, height, width = images.shape
        part = slice(first, first + items)
        rows = self._weights(0, part, 255, workspace)
        columns = self._weights(1, part, 1, workspace)
        pixels = workspace("pixels", *images.shape).copy_(images)
        wide = workspace("wide", items, channels * height, self.size)
        torch.bmm(pixels.view(items, channels * height, width), columns.transpose(1, 2), out=wide)
        if self.interpolation == "bicubic":
            wide.clamp_(0, 255)  # the cubic kernel overshoots; Pillow clips after each axis, width first
        planes = workspace("planes", channels, items, self.size, self.size)
        for plane, channel in zip(
            planes, wide.view(items, channels, height, self.size).unbind(1), strict=True
        ):
            torch.bmm(rows, channel, out=plane)
        transposed = self._transposed[part].nonzero().flatten().to(images.device, non_blocking=True)
        if len(transposed):
            planes.index_copy_(1, transposed, planes.index_select(1, transposed).mT)
        return planes.clamp_(0, 1) if self.interpolation == "bicubic" else planes

    def _weights(self, axis: int, part: slice, divisor: float, workspace: Workspace) -> Tensor:
        """(items, size, length), each row normalised to 1 / ``divisor``."""
        position, centre, reach = (
            self._position[axis][part],
            self._centre[axis, part],
            self._reach[axis, part],
        )
        weights = workspace(f"weights {axis}", len(position), self.size, position.shape[2])
        torch.sub(position, centre, out=weights).abs_()
        # both kernels up to a constant factor, which the normalisation removes
        if self.interpolation == "bicubic":
            weights.copy_(_cubic(weights.div_(reach).clamp_max_(2)))
        else:
            torch.sub(reach, weights, out=weights).clamp_min_(0)
        return weights.div_(weights.sum(dim=2, keepdim=True).mul_(divisor))


def _cubic(x: Tensor) -> Tensor:
    # Keys' kernel, a = -1/2, x >= 0: 1.5 x^3 - 2.5 x^2 + 1 up to 1, -0.5 x^3 + 2.5 x^2 - 4 x + 2 up to 2
    near = ((1.5 * x - 2.5) * x * x + 1) * (x <= 1)
    far = (((-0.5 * x + 2.5) * x - 4) * x + 2) * (x > 1)
    return near + far
