import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cacr.encoders import build_encoder
from cacr.encoders.first_layer import (
    PATCHES,
    cut_patches,
    filters_for,
    first_layer,
    set_filters,
    whitened_filters,
)
from cacr.errors import UserError


def _draw(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _patches(count: int = 4000, dim: int = 12) -> Tensor:
    """Patches whose values depend on each other."""
    mixing = torch.randn(dim, dim, generator=_draw(1), dtype=torch.float64)
    return (torch.randn(count, dim, generator=_draw(), dtype=torch.float64) @ mixing + 3).float()


def test_filters_are_the_whitened_components_of_numpy() -> None:
    patches = _patches()
    x = patches.numpy().astype(np.float64)
    variance, vectors = np.linalg.eigh(np.cov(x.T, bias=True))
    expected = (vectors / np.sqrt(variance)).T[::-1][:5]
    found = whitened_filters(patches, 5, signs=False, draw=_draw()).double().numpy()
    same = np.sign((found * expected).sum(1, keepdims=True))  # an eigenvector has no sign of its own
    np.testing.assert_allclose(found, same * expected, rtol=1e-4, atol=1e-6)


def test_answers_are_uncorrelated_and_of_variance_one() -> None:
    patches = _patches()
    answers = patches.double() @ whitened_filters(patches, 12, signs=False, draw=_draw()).double().T
    np.testing.assert_allclose(np.cov(answers.T.numpy(), bias=True), np.eye(12), atol=1e-3)


def test_each_component_comes_with_both_signs() -> None:
    filters = whitened_filters(_patches(), 8, signs=True, draw=_draw())
    assert torch.equal(filters[0::2], -filters[1::2])
    assert torch.equal(filters[0::2], whitened_filters(_patches(), 4, signs=False, draw=_draw()))


def test_more_filters_than_components_are_random_directions_among_them() -> None:
    grey = _patches(dim=3).repeat(1, 3)  # three equal channels: nine values, three directions
    filters = whitened_filters(grey, 40, signs=True, draw=_draw())
    assert torch.linalg.matrix_rank(filters.double(), rtol=1e-4) == 3
    answers = grey.double() @ filters.double().T
    np.testing.assert_allclose(answers.var(0, unbiased=False).numpy(), 1, rtol=1e-3)


def test_images_of_one_colour_say_what_to_do() -> None:
    with pytest.raises(UserError, match="first_layer=random"):
        whitened_filters(torch.ones(100, 12), 4, signs=True, draw=_draw())


def test_patches_are_windows_of_their_image() -> None:
    rows, columns = torch.meshgrid(torch.arange(9.0), torch.arange(7.0), indexing="ij")
    image = torch.stack([10 * rows + columns, 100 + 10 * rows + columns, 200 + 10 * rows + columns])
    layer = nn.Conv2d(3, 4, (2, 3))
    patches = cut_patches(torch.stack([image, -image]), layer, _draw()).view(-1, 3, 2, 3)
    assert len(patches) == 2 * PATCHES
    windows = torch.stack([*image.unfold(1, 2, 1).unfold(2, 3, 1).flatten(1, 2).movedim(1, 0)])
    for patch in patches[:PATCHES]:
        assert (windows == patch).flatten(1).all(1).any()
    assert torch.all(patches[PATCHES:] <= 0)
    corners = {(float(patch[0, 0, 0])) for patch in patches[:PATCHES]}
    assert {0.0, 74.0} <= corners  # the first and the last place are among them


@pytest.mark.parametrize(
    ("name", "size", "kernel"),
    [("small_alexnet", 32, 3), ("resnet18", 32, 3), ("resnet18", 96, 7), ("resnet10t", 64, 3)],
)
def test_the_stem_of_a_convolutional_network_gets_both_signs(name: str, size: int, kernel: int) -> None:
    encoder = build_encoder(name, image_size=size)
    layer = first_layer(encoder.backbone)
    assert layer.kernel_size == (kernel, kernel)
    images = torch.randn(16, 3, size, size, generator=_draw())
    filters = filters_for(layer, cut_patches(images, layer, _draw()), _draw())
    assert torch.equal(filters[0], -filters[1])
    set_filters(layer, filters, trained=True)
    assert torch.isfinite(encoder(images)).all()


def test_patches_of_a_transformer_get_one_sign_and_no_bias() -> None:
    encoder = build_encoder("vit_tiny_patch16_224", image_size=32)
    layer = first_layer(encoder.backbone)
    images = torch.randn(64, 3, 32, 32, generator=_draw())
    filters = filters_for(layer, cut_patches(images, layer, _draw()), _draw())
    cosines = torch.corrcoef(filters.flatten(1)) - torch.eye(len(filters))
    assert cosines.abs().max() < 0.5
    set_filters(layer, filters, trained=False)
    assert layer.bias is not None
    assert not layer.bias.any()
    assert not layer.weight.requires_grad


def test_a_network_without_a_first_convolution_says_so() -> None:
    with pytest.raises(UserError, match="first_layer=random"):
        first_layer(nn.Flatten())
