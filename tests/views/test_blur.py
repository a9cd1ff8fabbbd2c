"""Gaussian blur against torchvision's."""

import pytest
import torch
import torchvision.transforms.functional as tv

from cacr.views.blur import blur, half_kernels
from tests.views.images import photos

SIZES = [(32, 1), (32, 11), (96, 11), (224, 11), (225, 11), (12, 11), (90, 3), (47, 5)]


@pytest.mark.parametrize(("size", "radius"), SIZES)
def test_equals_torchvision(size: int, radius: int) -> None:
    images = photos(4, size, size).float() / 255
    sigma = torch.tensor([0.1, 2.0, 0.7, 1.3])
    half, _ = half_kernels(sigma, torch.full((4,), radius))
    blurred = images.transpose(0, 1).contiguous()
    blur(blurred, half)
    for i in range(4):
        expected = tv.gaussian_blur(images[i], [2 * radius + 1] * 2, [float(sigma[i])] * 2)
        torch.testing.assert_close(blurred[:, i], expected, rtol=0, atol=1e-5)


def test_images_of_a_batch_may_have_kernels_of_different_size() -> None:
    images = photos(2, 16, 16).float() / 255
    half, _ = half_kernels(torch.tensor([1.5, 1.5]), torch.tensor([1, 5]))
    blurred = images.transpose(0, 1).contiguous()
    blur(blurred, half)
    for i, taps in enumerate([3, 11]):
        expected = tv.gaussian_blur(images[i], [taps, taps], [1.5, 1.5])
        torch.testing.assert_close(blurred[:, i], expected, rtol=0, atol=1e-5)
