"""Colour jitter, greyscale and solarising against torchvision's functional operations."""

import itertools
import math

import pytest
import torch
import torchvision.transforms.functional as tv
from tests.views.images import photos
from torch import Tensor

from cacr.views.colour import compile_program, jitter, program_order, shift_hue, solarise, to_grey
from cacr.views.draws import BRIGHTNESS, CONTRAST, HUE, SATURATION, Colours

STEPS = {
    BRIGHTNESS: tv.adjust_brightness,
    CONTRAST: tv.adjust_contrast,
    SATURATION: tv.adjust_saturation,
    HUE: tv.adjust_hue,
}


def planes_of(images: Tensor) -> Tensor:
    return (images.float() / 255).transpose(0, 1).flatten(2).contiguous()


def some_colours(items: int, seed: int = 0) -> Colours:
    """Every order of the four steps in turn, every fifth item left alone."""
    generator = torch.Generator().manual_seed(seed)
    orders = torch.tensor(list(itertools.permutations(range(4))))
    factor = torch.rand(items, 4, generator=generator, dtype=torch.float64) * 1.6 + 0.2
    factor[:, HUE] = torch.rand(items, generator=generator, dtype=torch.float64) - 0.5
    return Colours(
        jittered=torch.arange(items) % 5 != 4,
        order=orders[torch.arange(items) % len(orders)],
        factor=factor,
        grey=torch.zeros(items, dtype=torch.bool),
        sigma=torch.zeros(items),
        radius=torch.ones(items, dtype=torch.int64),
        threshold=torch.full((items,), math.inf),
    )


def jittered(images: Tensor, colours: Colours) -> Tensor:
    """As the pipeline does it, put back in the order of ``images``: (items, 3, height, width)."""
    order = program_order(colours)
    planes = planes_of(images[order])
    jitter(planes, compile_program(colours.take(order), planes.device))
    out = torch.empty_like(planes)
    out[:, order] = planes
    return out.view(3, *images.shape[:1], *images.shape[2:]).transpose(0, 1)


def test_jitter_in_every_order_equals_torchvision_on_float_tensors() -> None:
    images, colours = photos(60, 20, 24), some_colours(60)
    ours = jittered(images, colours)
    for i in range(len(images)):
        expected = images[i].float() / 255
        if colours.jittered[i]:
            for step in colours.order[i].tolist():
                expected = STEPS[step](expected, float(colours.factor[i, step]))
        torch.testing.assert_close(ours[i], expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    ("step", "factor", "most"),
    [
        # PIL rounds the image, and for contrast the mean grey, to 8 bits
        (BRIGHTNESS, 0.63, 1.01),
        (BRIGHTNESS, 1.37, 1.01),
        (CONTRAST, 0.63, 1.5),
        (CONTRAST, 1.37, 1.5),
        (SATURATION, 0.63, 1.5),
        (SATURATION, 1.37, 1.5),
        # PIL's hue has 8 bits, of which a turn is 256 and the shift is in 255ths: two steps of six levels
        (HUE, 0.4, 13),
        (HUE, -0.25, 13),
    ],
)
def test_each_step_equals_torchvision_on_pil_images_within_rounding(
    step: int, factor: float, most: float
) -> None:
    images = photos(4, 20, 24)
    colours = some_colours(4)
    colours.jittered[:] = True
    colours.factor[:] = torch.tensor([1.0, 1.0, 1.0, 0.0])
    colours.factor[:, step] = factor
    ours = jittered(images, colours) * 255
    for i in range(len(images)):
        expected = STEPS[step](tv.to_pil_image(images[i]), factor)
        difference = (ours[i] - tv.pil_to_tensor(expected)).abs()
        assert difference.max() <= most
        assert difference.mean() <= most / 4 + 0.3


def test_without_hue_the_other_steps_keep_their_order() -> None:
    images, colours = photos(24, 12, 12), some_colours(24)
    colours.factor[:, HUE] = 0
    ours = jittered(images, colours)
    for i in range(len(images)):
        expected = images[i].float() / 255
        if colours.jittered[i]:
            for step in colours.order[i].tolist():
                if step != HUE:
                    expected = STEPS[step](expected, float(colours.factor[i, step]))
        torch.testing.assert_close(ours[i], expected, rtol=0, atol=2e-5)


def test_hue_of_pure_and_equal_colours() -> None:
    # all corners of the colour cube: ties between channels, and greys without a hue
    corners = torch.tensor(list(itertools.product([0.0, 0.5, 1.0], repeat=3))).T
    for turns in (-0.5, -1 / 3, -0.1, 0.0, 0.25, 1 / 3, 0.5):
        planes = corners.clone()[:, None]
        shift_hue(planes, torch.tensor([[turns]]))
        expected = tv.adjust_hue(corners[:, None], turns)
        torch.testing.assert_close(planes, expected, rtol=0, atol=1e-5)


def test_greyscale_equals_torchvision() -> None:
    images = photos(6, 10, 12)
    planes = planes_of(images)
    chosen = torch.tensor([True, False, False, True, True, False])
    to_grey(planes, chosen)
    for i in range(6):
        expected = images[i].float() / 255
        if chosen[i]:
            expected = tv.rgb_to_grayscale(expected, 3)
        torch.testing.assert_close(planes[:, i], expected.flatten(1), rtol=0, atol=1e-6)


def test_solarise_equals_torchvision() -> None:
    images = photos(4, 10, 12)
    planes = planes_of(images)
    solarise(planes, torch.tensor([128 / 255, math.inf, 0.2, 1.0]))
    for i, threshold in enumerate([128, 256, 51, 255]):
        expected = images[i] if threshold > 255 else tv.solarize(images[i], threshold)
        torch.testing.assert_close(planes[:, i], expected.flatten(1).float() / 255, rtol=0, atol=1e-6)
