"""DeiT's means against learning by heart: what each does, and that all of it follows from the seed."""

import pickle
import random

import numpy as np
import pytest
import torch
from torch import nn

from cacr.encoders import build_encoder
from cacr.evaluation.engine.network import Network
from cacr.evaluation.engine.regularised import (
    PixelChange,
    Regularisation,
    drop_paths,
    mixing,
    residual_paths,
    seeded,
    smoothed,
)
from cacr.features.changed import ChangedCrop, changed
from cacr.views.pixels import as_bytes, normalised, unnormalised


def _pixels(count: int) -> torch.Tensor:
    draw = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, 3, 24, 24), generator=draw, dtype=torch.uint8)


def test_what_timm_draws_follows_from_the_seed_and_leaves_no_trace() -> None:
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    state = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()  # noqa: NPY002
    drawn = []
    for seed in (5, 5, 6):
        with seeded(seed):
            drawn.append((random.random(), float(np.random.rand()), float(torch.rand(()))))  # noqa: NPY002
    assert drawn[0] == drawn[1] != drawn[2]
    assert random.getstate() == state[0]
    assert np.random.get_state()[1].tolist() == state[1]  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), state[2])


def test_images_are_changed_each_in_its_own_way_wherever_they_are_decoded() -> None:
    change = pickle.loads(pickle.dumps(PixelChange("rand-m9-mstd0.5-inc1", (0.5, 0.5, 0.5))))
    images = _pixels(1).repeat(8, 1, 1, 1)
    found = changed(images, change, torch.Generator().manual_seed(3))
    assert found.dtype == torch.uint8 and found.shape == images.shape
    assert len({bytes(image.numpy().tobytes()) for image in found}) > 4
    again = ChangedCrop(lambda image, generator: [image], change)(images, torch.Generator().manual_seed(3))
    assert torch.equal(again[0], found)


def test_the_strongest_change_of_every_kind_is_possible() -> None:
    """At full strength the posterize of timm keeps no bit, which Pillow refuses."""
    change = PixelChange("rand-m10-inc1", (0.5, 0.5, 0.5))
    (image,) = _pixels(1)
    found = {change(image, seed).numpy().tobytes() for seed in range(60)}
    assert len(found) > 30


def test_normalisation_and_back() -> None:
    mean, std = (0.1, 0.5, 0.9), (0.2, 0.3, 0.4)
    pixels = _pixels(2)
    assert torch.equal(as_bytes(unnormalised(normalised(pixels, mean, std), mean, std)), pixels)


@pytest.mark.parametrize("how", [Regularisation(mixup=0.8), Regularisation(cutmix=1.0)])
def test_labels_are_mixed_as_the_images_are(how: Regularisation) -> None:
    """Image i is full of the value i: what is left of it can be read off."""
    images = torch.arange(8.0)[:, None, None, None].expand(8, 3, 16, 16)
    labels, smoothing = torch.arange(8), 0.1
    mix = mixing(how, 8, smoothing, seed=0)
    assert mix is not None
    for _ in range(4):
        mixed, shares = mix(images, labels)
        torch.testing.assert_close(shares.sum(1), torch.ones(8))
        plain = (shares - smoothing / 8) / (1 - smoothing)
        torch.testing.assert_close((plain * labels).sum(1), mixed.mean((1, 2, 3)), atol=1e-4, rtol=1e-4)
        assert (plain > 1e-6).sum(1).max() == 2
    odd, shares = mix(images[:7], labels[:7])
    assert len(odd) == len(shares) == 6  # a batch is mixed with its mirror image


def test_erasing_alone_keeps_labels() -> None:
    mix = mixing(Regularisation(erasing=1.0), 4, 0.2, seed=0)
    assert mix is not None
    images, shares = mix(torch.zeros(6, 3, 16, 16), torch.arange(6) % 4)
    assert ((images != 0).flatten(1).any(1)).all()
    assert (images == 0).any()
    torch.testing.assert_close(shares, smoothed(torch.arange(6) % 4, 4, 0.2))
    torch.testing.assert_close(shares[1], torch.tensor([0.05, 0.85, 0.05, 0.05]))
    assert mixing(Regularisation(augment="rand-m9", drop_path=0.1), 4, 0.1, seed=0) is None


@pytest.mark.parametrize(("name", "size", "blocks"), [("vit_tiny_patch16_224", 32, 12), ("resnet18", 64, 8)])
def test_paths_are_left_out_more_often_towards_the_end(name: str, size: int, blocks: int) -> None:
    network = Network(build_encoder(name, image_size=size), 3, 0, torch.device("cpu"))
    images = torch.randn(4, 3, size, size, generator=torch.Generator().manual_seed(0))
    plain = network.eval()(images)
    drop_paths(network, 0.5)
    rates = [
        getattr(block, "drop_path", None) or block.drop_path1  # type: ignore[attr-defined]
        for block in residual_paths(network)
    ]
    assert [rate.drop_prob for rate in rates] == pytest.approx(np.linspace(0, 0.5, blocks).tolist())
    torch.testing.assert_close(network.eval()(images), plain)  # only training leaves paths out
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d | nn.BatchNorm1d):
            module.eval()
    for block in residual_paths(network):
        block.train()
    with seeded(0):
        first = network.backbone(images)
    with seeded(1):
        second = network.backbone(images)
    assert not torch.allclose(first, second)


def test_an_encoder_without_residual_paths_has_none() -> None:
    assert residual_paths(build_encoder("small_alexnet", image_size=16, width=0.05).backbone) == []
