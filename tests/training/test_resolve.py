import pytest
import torch

from cacr.config import PretrainSettings
from cacr.errors import SettingsError, UserError
from cacr.training.resolve import Described, resolve

CPU = torch.device("cpu")


def _source(images: int, side: int) -> Described:
    return Described("arrays", images, side, in_memory=True)


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
    assert (settings.lr, settings.objective_options) == (pytest.approx(0.06), {"t_neg": 1.0})


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


@pytest.mark.parametrize(("epochs", "rate"), [(200, 0.15), (5, 1.05)])
def test_convolutions_with_momentum_keys_take_lars(epochs: int, rate: float) -> None:
    asked = PretrainSettings(data="a", batch_size=128, epochs=epochs, framework="momentum")
    settings = resolve(asked, _source(20_000, 8), world_size=1, device=CPU)
    assert (settings.optimizer, settings.lr) == ("lars", pytest.approx(rate))


def test_too_few_images_and_too_small_shares_are_refused() -> None:
    with pytest.raises(UserError, match="a batch of 64 images needs at least so many, arrays has 10"):
        resolve(PretrainSettings(data="arrays", batch_size=64), _source(10, 32), world_size=1, device=CPU)
    with pytest.raises(UserError, match="less than two images each"):
        resolve(PretrainSettings(data="arrays", batch_size=4), _source(10, 32), world_size=4, device=CPU)


@pytest.mark.parametrize(
    ("batch", "images", "size"), [(128, 50_000, 24_960), (256, 10**6, 65_536), (64, 100, 64)]
)
def test_a_queue_holds_whole_batches_of_at_most_half_the_data(batch: int, images: int, size: int) -> None:
    asked = PretrainSettings(data="arrays", framework="queue", batch_size=batch)
    settings = resolve(asked, _source(images, 32), world_size=1, device=CPU)
    assert settings.framework_options["queue_size"] == size
    assert settings.objective_options["pos_grad"] is False


def test_what_does_not_fit_is_told_at_once() -> None:
    asked = PretrainSettings(
        data="arrays",
        framework="queue",
        batch_size=8,
        framework_options={"queue_size": 205},
        encoder="vit_tiny_patch16_224",
        image_size=40,
    )
    with pytest.raises(SettingsError) as caught:
        resolve(asked, _source(200, 64), world_size=8, device=CPU)
    for part in (
        "queue_size=205 is no multiple of the global batch, 8: give 208, or auto",
        "queue_size=205 is longer than the data set of 200 images",
        "patches of 16 pixels, which do not divide 40: give a multiple, such as 32",
        "less than two images each",
    ):
        assert part in str(caught.value), part


def test_local_crops_need_an_encoder_of_any_size() -> None:
    asked = PretrainSettings(
        data="arrays", preset="multicrop-swav", encoder="small_alexnet", image_size=64, positions="fixed"
    )
    with pytest.raises(
        SettingsError, match=r"(?s)one size.*64 and 27 pixels.*positions is a setting of transf"
    ):
        resolve(asked, _source(200, 64), world_size=1, device=CPU)


def test_transformers_in_framework_momentum_are_trained_as_in_moco_v3() -> None:
    asked = PretrainSettings(
        data="a", framework="momentum", encoder="vit_tiny_patch16_224", batch_size=1024, epochs=300
    )
    settings = resolve(asked, _source(100_000, 224), world_size=1, device=CPU)
    assert (settings.optimizer, settings.positions, settings.patches) == ("adamw", "fixed", "frozen")
    assert (settings.head, settings.dim, settings.sync_batch_norm) == ("moco_v3_vit", 256, True)
    assert (settings.lr, settings.weight_decay) == (pytest.approx(1.5e-4 * 4), 0.1)
    assert settings.framework_options == {"ema": 0.99}
