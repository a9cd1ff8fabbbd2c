import numpy as np
import pytest
import torch

from cacr.config import PretrainSettings
from cacr.data import ArraySource
from cacr.errors import UserError
from cacr.training.resolve import resolve

CPU = torch.device("cpu")


def _source(images: int, size: int) -> ArraySource:
    return ArraySource(
        "arrays", torch.zeros(images, 3, size, size, dtype=torch.uint8), labels=np.zeros(images)
    )


def test_nothing_stays_auto_and_what_was_asked_for_stays() -> None:
    asked = PretrainSettings(data="arrays", views=3, lr=0.5)
    settings = resolve(asked, _source(1000, 32), world_size=1, device=CPU)
    left = [name for name, value in settings if value == "auto"]
    assert left == ["accelerator", "checkpoint_every_steps"]
    assert (settings.views, settings.lr) == (3, 0.5)


def test_digits_are_small() -> None:
    settings = resolve(PretrainSettings(data="digits"), _source(1000, 28), world_size=1, device=CPU)
    assert (settings.encoder, settings.width, settings.views, settings.batch_size) == (
        "small_alexnet",
        0.25,
        5,
        128,
    )
    assert (settings.image_size, settings.preset) == (32, "digits")


@pytest.mark.parametrize(
    ("side", "size", "encoder"),
    [(28, 32, "small_alexnet"), (96, 64, "small_alexnet"), (300, 224, "resnet18")],
)
def test_size_and_encoder_follow_the_images(side: int, size: int, encoder: str) -> None:
    settings = resolve(PretrainSettings(data="arrays"), _source(200, side), world_size=1, device=CPU)
    assert (settings.image_size, settings.encoder) == (size, encoder)


def test_the_rate_of_the_paper_for_long_runs_and_more_for_short_ones() -> None:
    long = resolve(PretrainSettings(data="a", batch_size=128), _source(20_000, 8), world_size=1, device=CPU)
    assert long.lr == pytest.approx(0.06)
    assert long.objective_options == {"t_neg": 2.0}
    short = resolve(
        PretrainSettings(data="a", batch_size=128, epochs=5), _source(20_000, 8), world_size=1, device=CPU
    )
    assert short.lr == pytest.approx(0.18)
    assert short.objective_options == {"t_neg": 4.0}


def test_too_few_images_and_too_small_shares_are_refused() -> None:
    with pytest.raises(UserError, match="a batch of 64 images needs at least so many, arrays has 10"):
        resolve(PretrainSettings(data="arrays", batch_size=64), _source(10, 32), world_size=1, device=CPU)
    with pytest.raises(UserError, match="less than two images each"):
        resolve(PretrainSettings(data="arrays", batch_size=4), _source(10, 32), world_size=4, device=CPU)
