"""Colour jitter, greyscale and solarising against torchvision's functional operations."""

import itertools
import math

import pytest
import torch
import torchvision.transforms.functional as tv
from torch import Tensor

from cacr.views.colour import adjust_hue
from cacr.views.draws import BRIGHTNESS, CONTRAST, HUE, SATURATION, Colours
from cacr.views.plan import ColourPlan
from cacr.views.workspace import Workspace
from tests.views.images import photos

STEPS = {
    BRIGHTNESS: tv.adjust_brightness,
    CONTRAST: tv.adjust_contrast,
    SATURATION: tv.adjust_saturation,
    HUE: tv.adjust_hue,
}


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


def coloured(images: Tensor, colours: Colours, chunk: int = 1000) -> Tensor:
    """As the pipeline does it, put back in the order of ``images``: (items, 3, height, width) in [0, 1]."""
    cpu = torch.device("cpu")
    plan, workspace = ColourPlan(colours, cpu), Workspace(cpu)
    out = torch.empty(images.shape)
    for first in range(0, len(images), chunk):
        items = plan.order[first : first + chunk]
        planes = (images[items].float() / 255).transpose(0, 1).contiguous()
        plan.apply(planes, first, workspace)
        out[items] = planes.transpose(0, 1)
    return out


@pytest.mark.parametrize("chunk", [1, 7, 60])
def test_jitter_in_every_order_equals_torchvision_on_float_tensors(chunk: int) -> None:
    images, colours = photos(60, 20, 20), some_colours(60)
    ours = coloured(images, colours, chunk)
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
    images = photos(4, 20, 20)
    colours = some_colours(4)
    colours.jittered[:] = True
    colours.factor[:] = torch.tensor([1.0, 1.0, 1.0, 0.0])
    colours.factor[:, step] = factor
    ours = coloured(images, colours) * 255
    for i in range(len(images)):
        expected = STEPS[step](tv.to_pil_image(images[i]), factor)
        difference = (ours[i] - tv.pil_to_tensor(expected)).abs()
        assert difference.max() <= most
        assert difference.mean() <= most / 4 + 0.3


def test_without_hue_the_other_steps_keep_their_order() -> None:
    images, colours = photos(24, 12, 12), some_colours(24)
    colours.factor[:, HUE] = 0
    ours = coloured(images, colours)
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
        adjust_hue(planes, torch.tensor([[turns]]), torch.empty(4, *planes.shape[1:]))
        expected = tv.adjust_hue(corners[:, None], turns)
        torch.testing.assert_close(planes, expected, rtol=0, atol=1e-5)


def plain(items: int) -> Colours:
    """Nothing happens to any item."""
    colours = some_colours(items)
    colours.jittered[:] = False
    return colours


def test_greyscale_equals_torchvision() -> None:
    images, colours = photos(6, 12, 12), plain(6)
    colours.grey[:] = torch.tensor([True, False, False, True, True, False])
    ours = coloured(images, colours)
    for i in range(6):
        expected = images[i].float() / 255
        if colours.grey[i]:
            expected = tv.rgb_to_grayscale(expected, 3)
        torch.testing.assert_close(ours[i], expected, rtol=0, atol=1e-6)


def test_solarise_equals_torchvision() -> None:
    images, colours = photos(4, 12, 12), plain(4)
    colours.threshold[:] = torch.tensor([128 / 255, math.inf, 51 / 255, 1.0])
    ours = coloured(images, colours)
    for i, threshold in enumerate([128, 256, 51, 255]):
        expected = images[i] if threshold > 255 else tv.solarize(images[i], threshold)
        torch.testing.assert_close(ours[i], expected.float() / 255, rtol=0, atol=1e-6)


@pytest.mark.parametrize("chunk", [1, 5, 24])
def test_all_steps_come_in_the_order_of_the_recipes(chunk: int) -> None:
    images, colours = photos(24, 16, 16), some_colours(24)
    turn = torch.arange(24)
    colours.grey[:] = turn % 3 == 0
    colours.sigma[:] = torch.where(turn % 4 == 1, 0.3 + turn / 20, 0)
    colours.radius[:] = 1 + turn % 3
    colours.threshold[:] = torch.where(turn % 2 == 1, 0.5, math.inf)
    ours = coloured(images, colours, chunk)
    for i in range(24):
        expected = images[i].float() / 255
        if colours.jittered[i]:
            for step in colours.order[i].tolist():
                expected = STEPS[step](expected, float(colours.factor[i, step]))
        if colours.grey[i]:
            expected = tv.rgb_to_grayscale(expected, 3)
        if colours.sigma[i] > 0:
            taps = 2 * int(colours.radius[i]) + 1
            expected = tv.gaussian_blur(expected, [taps, taps], [float(colours.sigma[i])] * 2)
        if colours.threshold[i] < math.inf:
            away = (expected - 0.5).abs() > 1e-4  # solarising jumps there, and rounding decides
            solarised = tv.solarize(expected, 0.5)
            torch.testing.assert_close(ours[i][away], solarised[away], rtol=0, atol=5e-5)
        else:
            torch.testing.assert_close(ours[i], expected, rtol=0, atol=5e-5)
