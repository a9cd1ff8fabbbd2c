"""Initialise the first layer from images: filters that whiten their patches."""

import torch
from torch import Tensor, nn

from cacr.errors import UserError

LEAST_VARIANCE = 1e-5
"""Principal components with a smaller share of the largest variance are noise or rounding errors, not filters."""

PATCHES = 64
"""Number of patches per image."""


def first_layer(backbone: nn.Module, channels: int = 3) -> nn.Conv2d:
    """The first convolution: the stem of a convolutional network, or the patch projection of a transformer.

    Raises:
        UserError: the network has none.
    """
    for layer in backbone.modules():
        if isinstance(layer, nn.Conv2d) and layer.in_channels == channels and layer.groups == 1:
            return layer
    raise UserError(
        "this encoder does not start with a convolution of the pixels: use --set first_layer=random"
    )


def cut_patches(images: Tensor, layer: nn.Conv2d, draw: torch.Generator) -> Tensor:
    """Random patches (n * PATCHES, 3 * height * width) of images (n, 3, s, s), with the size of the layer's filters."""
    count, (height, width) = len(images), layer.kernel_size

    def places(most: int) -> Tensor:
        return torch.randint(most + 1, (count, PATCHES), generator=draw)

    rows = places(images.shape[2] - height)[..., None] + torch.arange(height)
    columns = places(images.shape[3] - width)[..., None] + torch.arange(width)
    image = torch.arange(count)[:, None, None, None]
    cut = images.movedim(1, -1)[image, rows[..., :, None], columns[..., None, :]]
    return cut.movedim(-1, 2).flatten(0, 1).flatten(1)


def whitened_filters(patches: Tensor, count: int, *, signs: bool, draw: torch.Generator) -> Tensor:
    """Filters whose outputs for the patches are uncorrelated and have variance 1.

    With C = V diag(lambda) V^T the covariance of the patches, lambda descending, filter i is V_i / sqrt(lambda_i);
    with ``signs`` its negative is also a filter, because a ReLU passes only half of the output. If there are fewer
    components than filters, the other filters are random directions in the space of the whitened components.

    Args:
        patches: (n, dim).
        count: Number of filters.
        signs: Use each component with both signs.
        draw: Generator of the random directions.

    Returns:
        (count, dim).
    """
    x = patches.double()
    centred = x - x.mean(0)
    variance, vectors = torch.linalg.eigh(centred.T @ centred / len(x))
    variance, vectors = variance.flip(0), vectors.flip(1)
    if not float(variance[0]) > 0:
        raise UserError(
            "the first layer cannot start from images of a single colour: use --set first_layer=random"
        )
    kept = variance > LEAST_VARIANCE * variance[0]
    components = (vectors[:, kept] / variance[kept].sqrt()).T
    # The sign of an eigenvector is arbitrary: its largest entry is made positive.
    largest = components.gather(1, components.abs().argmax(1, keepdim=True))
    components = components * largest.sign()
    filters = torch.stack([components, -components], dim=1).flatten(0, 1) if signs else components
    if len(filters) < count:
        directions = torch.randn(count - len(filters), len(components), generator=draw, dtype=torch.float64)
        filters = torch.cat([filters, nn.functional.normalize(directions, dim=1) @ components])
    return filters[:count].float()


def filters_for(layer: nn.Conv2d, patches: Tensor, draw: torch.Generator) -> Tensor:
    """Whitened filters (filters, 3, height, width) for a layer, from patches (n, 3 * height * width)."""
    # Patches that do not overlap belong to a transformer, where no ReLU follows.
    signs = layer.stride != layer.kernel_size
    filters = whitened_filters(patches, layer.out_channels, signs=signs, draw=draw)
    return filters.view(layer.weight.shape)


@torch.no_grad()
def set_filters(layer: nn.Conv2d, filters: Tensor, *, trained: bool) -> None:
    """Replace the filters of a layer; its bias becomes zero."""
    layer.weight.copy_(filters)
    if layer.bias is not None:
        layer.bias.zero_()
    layer.requires_grad_(trained)
