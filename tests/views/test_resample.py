"""Crop, resize and flip against torchvision's functional operations."""

import pytest
import torch
import torchvision.transforms.functional as tv
from torch import Tensor
from torchvision.transforms import InterpolationMode

from cacr.views.augmentation import Augmentation
from cacr.views.draws import Crops, draw_crops
from cacr.views.resample import Resampler
from cacr.views.workspace import Workspace
from tests.views.images import photos

CPU = torch.device("cpu")

BOXES = [(0, 0, 40, 52), (5, 7, 20, 13), (31, 40, 9, 12), (0, 51, 40, 1), (2, 0, 38, 50), (39, 0, 1, 52)]


def crops_of(boxes: list[tuple[int, int, int, int]], flip: list[bool]) -> Crops:
    box = torch.tensor(boxes, dtype=torch.float64)
    start, extent = box[:, :2], box[:, 2:]
    return Crops(
        start, extent, start, start + extent, torch.tensor(flip), torch.zeros(len(boxes), dtype=torch.int64)
    )


def resampled(images: Tensor, crops: Crops, size: int, interpolation: str, first: int = 0) -> Tensor:
    resample = Resampler(crops, *images.shape[2:], size, interpolation, CPU)
    return resample(images[first:], first, Workspace(CPU))


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [7, 32, 64])
def test_equals_torchvision_on_float_tensors(interpolation: str, size: int) -> None:
    # away from black and white, where Pillow clips what the cubic filter overshoots and float tensors do not
    images = photos(len(BOXES), 40, 52) // 3 + 85
    flip = [True, False, True, False, True, True]
    planes = resampled(images, crops_of(BOXES, flip), size, interpolation)
    mode = InterpolationMode(interpolation)
    for i, (box, flipped) in enumerate(zip(BOXES, flip, strict=True)):
        expected = tv.resized_crop(images[i].float() / 255, *box, [size, size], mode, antialias=True)
        expected = tv.hflip(expected) if flipped else expected
        torch.testing.assert_close(planes[:, i], expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_equals_torchvision_on_pil_images_within_rounding(interpolation: str) -> None:
    images = photos(len(BOXES), 40, 52)
    planes = resampled(images, crops_of(BOXES, [False] * len(BOXES)), 32, interpolation)
    mode = InterpolationMode(interpolation)
    for i, box in enumerate(BOXES):
        pil = tv.resized_crop(tv.to_pil_image(images[i]), *box, [32, 32], mode)
        difference = (planes[:, i] * 255 - tv.pil_to_tensor(pil)).abs()
        assert difference.max() <= 1.5


@pytest.mark.parametrize(("height", "width"), [(40, 52), (60, 33), (96, 96), (24, 30)])
@pytest.mark.parametrize(("size", "resize"), [(32, 32), (32, 37), (64, 70)])
def test_centre_crop_equals_resize_then_centre_crop(height: int, width: int, size: int, resize: int) -> None:
    images = photos(2, height, width)
    view = Augmentation(size, scale=None, resize=resize, flip=0.0)
    crops = draw_crops([view], 2, height, width, torch.Generator())
    planes = resampled(images, crops, size, "bilinear")
    for i in range(2):
        resized = tv.resize(images[i].float() / 255, [resize], antialias=True)
        expected = tv.center_crop(resized, [size, size])
        torch.testing.assert_close(planes[:, i], expected, rtol=0, atol=2e-5)
