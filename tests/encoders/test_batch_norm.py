import copy

import pytest
import torch
from torch import Tensor, nn

from cacr.encoders import build_encoder, normalise_per_view


def small_alexnet() -> tuple[nn.Module, Tensor]:
    return build_encoder("small_alexnet", image_size=15, width=0.05), torch.randn(3 * 4, 3, 15, 15)


def resnetv2() -> tuple[nn.Module, Tensor]:
    # Batch norm with a built-in activation, timm's BatchNormAct2d.
    return build_encoder("resnetv2_18", image_size=32), torch.randn(3 * 2, 3, 32, 32)


def cumulative() -> tuple[nn.Module, Tensor]:
    return nn.Sequential(nn.BatchNorm1d(5, momentum=None), nn.Linear(5, 2)), torch.randn(3 * 4, 5)


def train(
    module: nn.Module, images: Tensor, views: int
) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
    """Output, gradients and state after a step in which each of ``views`` parts has its own forward call."""
    output = torch.cat([module(part) for part in images.chunk(views)])
    (output * torch.linspace(-1, 1, output.numel()).view_as(output)).sum().backward()
    gradients = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    return output, gradients, module.state_dict()


@pytest.mark.parametrize("make", [small_alexnet, resnetv2, cumulative])
def test_one_forward_equals_one_forward_per_view(make) -> None:
    torch.manual_seed(0)
    separate, images = make()
    separate, images = separate.double(), images.double()
    together = copy.deepcopy(separate)
    normalise_per_view(together, 3)
    expected = train(separate, images, views=3)
    actual = train(together, images, views=1)
    torch.testing.assert_close(actual, expected)
    assert any("num_batches_tracked" in name for name in actual[2])


def test_the_number_of_views_can_change_and_one_is_ordinary() -> None:
    torch.manual_seed(0)
    plain, images = small_alexnet()
    plain, images = plain.double(), images.double()
    changed = copy.deepcopy(plain)
    for views in (2, 4, 1):
        normalise_per_view(changed, views)
        torch.testing.assert_close(
            train(changed, images.clone(), views=1)[0], train(plain, images.clone(), views=views)[0]
        )
        torch.testing.assert_close(changed.state_dict(), plain.state_dict())


def test_evaluation_and_copies_are_independent_of_it() -> None:
    torch.manual_seed(0)
    module, images = small_alexnet()
    normalise_per_view(module, 3)
    module(images)
    copied = copy.deepcopy(module)
    before = copy.deepcopy(module.state_dict())
    copied(images)  # would change the statistics of the first if the copy's layers still spoke to it
    torch.testing.assert_close(module.state_dict(), before)
    module.eval()
    plain = small_alexnet()[0].eval()
    plain.load_state_dict(module.state_dict())
    assert torch.equal(module(images[:7]), plain(images[:7]))


def test_channels_last_is_kept() -> None:
    layer = nn.BatchNorm2d(4)
    normalise_per_view(layer, 2)
    output = layer(torch.randn(6, 4, 5, 5).contiguous(memory_format=torch.channels_last))
    assert output.is_contiguous(memory_format=torch.channels_last)


def test_a_batch_that_does_not_divide_is_an_error() -> None:
    layer = nn.BatchNorm1d(4)
    normalise_per_view(layer, 2)
    with pytest.raises(ValueError, match="5 inputs cannot be divided into 2 views"):
        layer(torch.randn(5, 4))
