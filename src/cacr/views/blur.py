"""Gaussian blur of a batch, with a different width for each image."""

import torch
from torch import Tensor
from torch.nn.functional import pad

_NOTHING = 1e-7  # smaller weights change values by less than the rounding of float32


def half_kernels(sigma: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
    """The normalised weights w(d) ~ exp(-d^2 / 2 sigma^2) of each item, at distances d = 0, 1 ... radius.

    Args:
        sigma: (items,); 0 for no blur.
        radius: (items,) kernel pixels on each side.

    Returns:
        Float32 (items, largest radius + 1), zero beyond an item's radius; and for each item the distance beyond which
        all weights are practically zero.
    """
    distance = torch.arange(int(radius.max()) + 1)
    width = sigma[:, None].double().clamp_min(1e-3)
    half = torch.exp(-0.5 * (distance / width) ** 2) * (distance <= radius[:, None])
    half /= 2 * half.sum(dim=1, keepdim=True) - half[:, :1]
    return half.float(), (half > _NOTHING).sum(dim=1) - 1


def blur(planes: Tensor, half: Tensor) -> None:
    """Separable blur with reflected borders, in place.

    The image is divided into bands of rows. Each band, with ``reach`` rows above and below, is multiplied by the same
    small matrix; then the same for columns. This takes a fraction of the time of a convolution.

    Args:
        planes: (3, items, size, size).
        half: (items, reach + 1) of `half_kernels`, on the same device; reach is less than size.
    """
    channels, items, size, _ = planes.shape
    reach = half.shape[1] - 1
    block = _block(size)
    window = block + 2 * reach
    matrix = _band_matrix(half, block)
    bands = (
        pad(planes, (reach,) * 4, mode="reflect").unfold(2, window, block).mT
    )  # (3, items, bands, window, columns)
    rows = planes.new_empty(channels, items, size // block, block, bands.shape[4])
    shared = [one.expand(size // block, block, window) for one in matrix.unbind()]
    for of_channel, made in zip(bands.unbind(), rows.unbind(), strict=True):
        for one, band, out in zip(shared, of_channel.unbind(), made.unbind(), strict=True):
            torch.bmm(one, band, out=out)  # overlapping bands, multiplied in place, without a copy
    columns = rows.flatten(2, 3).unfold(3, window, block).reshape(channels, items, -1, window)
    torch.matmul(columns, matrix.transpose(1, 2), out=planes.view(channels, items, -1, block))


def _block(size: int) -> int:
    return max((block for block in range(8, 17) if size % block == 0), default=size)


def _band_matrix(half: Tensor, block: int) -> Tensor:
    """(items, block, block + 2 reach): row i has the kernel, centred at column i + reach."""
    items, reach = half.shape[0], half.shape[1] - 1
    kernel = torch.cat([half.flip(1)[:, :-1], half], dim=1)
    matrix = half.new_zeros(items, block, block + 2 * reach)
    # each row has the kernel one column further: a diagonal band, made with strides
    stride = matrix.stride()
    band = matrix.as_strided((items, block, 2 * reach + 1), (stride[0], stride[1] + 1, 1))
    band.copy_(kernel[:, None].expand_as(band))
    return matrix
