"""Drawn parameters against samples of torchvision's own, by Kolmogorov-Smirnov tests."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torchvision.transforms as tv
from scipy.stats import chisquare, ks_2samp, kstest

from cacr.views.augmentation import Augmentation
from cacr.views.draws import BRIGHTNESS, CONTRAST, HUE, SATURATION, draw_colours, draw_crops

SAMPLES = 4000
# below this a difference is taken for real; seeds are fixed, so a test either always passes or never
LEAST_P = 1e-3


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("height", "width", "scale"),
    [
        (32, 32, (0.2, 1.0)),
        (375, 500, (0.08, 1.0)),
        (60, 20, (0.05, 0.14)),
        # hardly an attempt fits, so most crops are the central one
        (20, 100, (0.8, 1.0)),
    ],
)
def test_crops_follow_torchvision(height: int, width: int, scale: tuple[float, float]) -> None:
    torch.manual_seed(1)
    image = torch.empty(3, height, width)
    ratio = (3 / 4, 4 / 3)
    theirs = np.array(
        [tv.RandomResizedCrop.get_params(image, scale, ratio) for _ in range(SAMPLES)], dtype=float
    )
    crops = draw_crops([Augmentation(32, scale=scale)], SAMPLES, height, width, generator())
    ours = torch.cat([crops.start, crops.extent], dim=1).numpy()
    top, left, h, w = ours.T
    assert (top >= 0).all() and (left >= 0).all() and (h >= 1).all() and (w >= 1).all()
    assert (top + h <= height).all() and (left + w <= width).all()
    measures: list[Callable[[np.ndarray], np.ndarray]] = [
        lambda box: box[:, 0],
        lambda box: box[:, 1],
        lambda box: box[:, 2],
        lambda box: box[:, 3],
        lambda box: box[:, 2] * box[:, 3],
        lambda box: box[:, 3] / box[:, 2],
        lambda box: box[:, 0] + box[:, 2] / 2,
    ]
    for measure in measures:
        assert ks_2samp(measure(ours), measure(theirs)).pvalue > LEAST_P


def test_jitter_follows_torchvision() -> None:
    torch.manual_seed(1)
    jitter = tv.ColorJitter(0.4, 0.8, 1.2, 0.1)
    ranges = (jitter.brightness, jitter.contrast, jitter.saturation, jitter.hue)
    drawn = [tv.ColorJitter.get_params(*ranges) for _ in range(SAMPLES)]
    view = Augmentation(32, jitter=1.0, brightness=0.4, contrast=0.8, saturation=1.2, hue=0.1)
    ours = draw_colours([view], SAMPLES, generator())
    for part in (BRIGHTNESS, CONTRAST, SATURATION, HUE):
        theirs = np.array([values[1 + part] for values in drawn])
        assert ks_2samp(ours.factor[:, part].numpy(), theirs).pvalue > LEAST_P


def test_all_orders_of_the_jitter_are_equally_likely() -> None:
    view = Augmentation(32, jitter=1.0, brightness=0.4)
    order = draw_colours([view], 24 * 400, generator()).order
    assert (order.sort(dim=1).values == torch.arange(4)).all()
    _, counts = torch.unique(order, dim=0, return_counts=True)
    assert len(counts) == 24
    assert chisquare(counts.numpy()).pvalue > LEAST_P


def test_probabilities_and_blur_widths() -> None:
    view = Augmentation(32, flip=0.3, jitter=0.8, brightness=0.4, grey=0.2, blur=0.5, solarise=0.1)
    colours = draw_colours([view], SAMPLES, generator())
    crops = draw_crops([view], SAMPLES, 32, 32, generator())
    drawn = {
        0.3: crops.flip,
        0.8: colours.jittered,
        0.2: colours.grey,
        0.5: colours.sigma > 0,
        0.1: colours.threshold < 1,
    }
    for probability, events in drawn.items():
        expected = SAMPLES * np.array([probability, 1 - probability])
        happened = int(events.sum())
        assert chisquare([happened, SAMPLES - happened], expected).pvalue > LEAST_P
    sigma = colours.sigma[colours.sigma > 0].numpy()
    assert kstest((sigma - 0.1) / 1.9, "uniform").pvalue > LEAST_P


def test_zero_and_one_mean_never_and_always() -> None:
    never = draw_colours([Augmentation(32)], 500, generator())
    assert not (never.jittered.any() or never.grey.any() or (never.sigma > 0).any())
    assert torch.isinf(never.threshold).all()
    view = Augmentation(32, flip=1.0, jitter=1.0, grey=1.0, blur=1.0, solarise=1.0)
    always = draw_colours([view], 500, generator())
    assert always.jittered.all() and always.grey.all() and (always.sigma > 0).all()
    assert (always.threshold < 1).all()
    assert draw_crops([view], 500, 32, 32, generator()).flip.all()


def test_images_and_views_are_drawn_independently() -> None:
    view = Augmentation(32, jitter=0.5, brightness=0.4, hue=0.4, grey=0.2, blur=0.5)
    runs = [
        [view] * 2,
        [view, Augmentation(32, jitter=0.5, brightness=0.4, hue=0.4, grey=0.2, blur=0.5, solarise=0.1)],
    ]
    for run in runs:
        colours = draw_colours(run, SAMPLES, generator(3))
        crops = draw_crops(run, SAMPLES, 64, 64, generator(4))
        values = torch.stack(
            [
                colours.jittered.double(),
                colours.factor[:, BRIGHTNESS],
                colours.factor[:, HUE],
                colours.order[:, 0].double(),
                colours.grey.double(),
                colours.sigma,
                (crops.start[:, 0] + 0.5) / (65 - crops.extent[:, 0]),
                crops.extent[:, 0] * crops.extent[:, 1],
                crops.flip.double(),
            ]
        )
        first, second = values[:, :SAMPLES], values[:, SAMPLES:]
        # between parts of one view, between views of an image, and between neighbours in a batch
        largest = 4.5 / np.sqrt(SAMPLES)
        own = torch.corrcoef(first).fill_diagonal_(0)
        across = torch.corrcoef(torch.cat([first, second]))[:9, 9:]
        neighbours = torch.corrcoef(torch.cat([first[:, 1:], first[:, :-1]]))[:9, 9:]
        for correlation in (own, across, neighbours):
            assert correlation.abs().max() < largest


def test_a_seed_gives_the_same_draws_and_another_seed_others() -> None:
    view = Augmentation(32, jitter=0.8, brightness=0.4, blur=0.5)
    first, again, other = (draw_colours([view], 20, generator(seed)) for seed in (5, 5, 6))
    for one, two, three in zip(vars(first).values(), vars(again).values(), vars(other).values(), strict=True):
        assert torch.equal(one, two)
        if one.is_floating_point() and not torch.isinf(one).all():
            assert not torch.equal(one, three)
