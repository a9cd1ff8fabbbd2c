from pathlib import Path

import pytest
import torch
from PIL import Image

from cacr.config import PretrainSettings, ResolvedSettings
from cacr.data import ArraySource, open_source
from cacr.errors import SettingsError, UserError
from cacr.frameworks import FRAMEWORKS
from cacr.methods import METHODS
from cacr.training.building.build import preset_of
from cacr.training.optimization.optimizers import DEFAULTS
from cacr.training.settings.check import check_settings
from cacr.training.settings.described import Described, describe
from cacr.training.settings.layers import with_recipe
from cacr.training.settings.recipes import RECIPES
from cacr.training.settings.resolve import choices, resolve
from cacr.views import Views
from tests.conftest import save_images
from tests.views.images import photos

CPU = torch.device("cpu")


def _source(images: int, side: int) -> Described:
    return Described("arrays", images, side, in_memory=True)


def test_nothing_stays_auto_and_what_was_asked_for_stays() -> None:
    asked = PretrainSettings(data="arrays", views=3, lr=0.5)
    settings = resolve(asked, _source(1000, 32), world_size=1, device=CPU)
    left = [name for name, value in settings if value == "auto"]
    assert left == ["accelerator", "checkpoint_every_steps"]
    assert (settings.views, settings.lr) == (3, 0.5)


def test_a_processor_gets_a_narrow_encoder() -> None:
    asked = PretrainSettings(data="arrays")
    narrow, wide = (
        resolve(asked, _source(1000, 28), world_size=1, device=torch.device(kind)) for kind in ("cpu", "cuda")
    )
    assert (narrow.encoder, narrow.width, narrow.views, narrow.batch_size) == ("small_alexnet", 0.25, 5, 128)
    assert wide.width == 1.0


def test_the_start_cannot_collapse() -> None:
    settings = resolve(PretrainSettings(data="arrays"), _source(1000, 28), world_size=1, device=CPU)
    assert (settings.head, settings.first_layer, settings.weights) == ("normed", "whitened", "kaiming")
    assert (settings.lr, settings.objective_options) == (pytest.approx(0.18), {"t_neg": 4.0})


def test_weights_from_elsewhere_stay_as_they_are() -> None:
    asked = PretrainSettings(data="arrays", init="runs/other")
    settings = resolve(asked, _source(1000, 28), world_size=1, device=CPU)
    assert (settings.head, settings.first_layer, settings.weights) == ("normed", "random", "paper")
    wrong = asked.model_copy(update={"first_layer": "whitened"})
    with pytest.raises(SettingsError, match="would replace weights of runs/other"):
        resolve(wrong, _source(1000, 28), world_size=1, device=CPU)


def test_patches_that_are_kept_at_random_are_not_whitened() -> None:
    vit = {"data": "arrays", "encoder": "vit_tiny_patch16_224", "framework": "momentum", "image_size": 224}
    settings = resolve(PretrainSettings(**vit), _source(1000, 224), world_size=1, device=CPU)
    assert (settings.patches, settings.first_layer) == ("frozen", "random")
    with pytest.raises(SettingsError, match="leave one out"):
        resolve(PretrainSettings(**vit, first_layer="frozen"), _source(1000, 224), world_size=1, device=CPU)


@pytest.mark.parametrize(
    ("side", "size", "encoder"),
    [(28, 32, "small_alexnet"), (96, 64, "small_alexnet"), (300, 224, "resnet18")],
)
def test_size_and_encoder_follow_the_images(side: int, size: int, encoder: str) -> None:
    settings = resolve(PretrainSettings(data="arrays"), _source(200, side), world_size=1, device=CPU)
    assert (settings.image_size, settings.encoder) == (size, encoder)


@pytest.mark.parametrize(
    "framework", [name for name in FRAMEWORKS if FRAMEWORKS[name].default_optimizer is None]
)
def test_convolutions_take_sgd_where_the_framework_has_no_optimiser_of_its_own(framework: str) -> None:
    asked = PretrainSettings(data="a", batch_size=128, framework=framework)
    settings = resolve(asked, _source(20_000, 8), world_size=1, device=CPU)
    assert (settings.optimizer, settings.lr) == ("sgd", pytest.approx(0.18))


@pytest.mark.parametrize("encoder", ["resnet18", "vit_tiny_patch16_224"])
@pytest.mark.parametrize("optimizer", ["auto", "sgd", "lars", "adam", "adamw"])
@pytest.mark.parametrize("method", METHODS)
def test_the_rates_of_a_method_are_for_the_optimiser_they_were_chosen_for(
    method: str, optimizer: str, encoder: str
) -> None:
    given = {"data": "a", "method": method, "encoder": encoder, "optimizer": optimizer, "image_size": 224}
    data = _source(20_000, 224)._replace(captions=1)

    def resolved(**more: float) -> ResolvedSettings:
        asked = check_settings(with_recipe({**given, **more, "batch_size": 128}))
        return resolve(asked, data, world_size=1, device=CPU)

    settings = resolved()
    usual = "adamw" if "vit" in encoder else "sgd"
    used = METHODS[method].settings.get("optimizer", usual) if optimizer == "auto" else optimizer
    assert settings.optimizer == used
    own, defaults = METHODS[method].rates.get(used), DEFAULTS[used]
    assert settings.lr == pytest.approx((own or defaults).base_lr / 2)
    assert settings.weight_decay == ((own and own.weight_decay) or defaults.weight_decay)
    assert settings.bias_base_lr == (own.bias_base_lr if own else None)
    assert resolved(base_lr=0.5).lr == pytest.approx(0.25)
    assert resolved(lr=0.5, weight_decay=0.0).weight_decay == 0


def test_captions_are_asked_for_and_all_of_them_are_counted() -> None:
    asked = PretrainSettings(
        data="a", framework="image_text", objective="clip", framework_options={"captions": "all"}
    )
    with pytest.raises(UserError, match="arrays has no captions"):
        resolve(asked, _source(1000, 32), world_size=1, device=CPU)
    told = _source(1000, 32)._replace(captions=5)
    settings = resolve(asked, told, world_size=1, device=CPU)
    assert settings.framework_options["captions"] == 5
    assert (settings.views, settings.preset, settings.optimizer) == (1, "clip", "adamw")
    frozen = asked.model_copy(update={"framework_options": {"image_trained": False}})
    with pytest.raises(UserError, match="would keep random weights"):
        resolve(frozen, told, world_size=1, device=CPU)


def test_too_few_images_and_too_small_shares_are_refused() -> None:
    with pytest.raises(UserError, match="batch size 64 exceeds the 10 images of arrays"):
        resolve(PretrainSettings(data="arrays", batch_size=64), _source(10, 32), world_size=1, device=CPU)
    with pytest.raises(UserError, match="less than two images to each"):
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
        "queue_size=205 is not a multiple of the global batch, 8: use 208, or auto",
        "queue_size=205 is larger than the data set of 200 images",
        "patches of 16 pixels, which do not divide 40: use a multiple, such as 32",
        "less than two images to each",
    ):
        assert part in str(caught.value), part


def test_local_crops_need_an_encoder_of_any_size() -> None:
    asked = PretrainSettings(
        data="arrays", preset="multicrop-swav", encoder="small_alexnet", image_size=64, positions="fixed"
    )
    with pytest.raises(SettingsError, match=r"(?s)one size.*64 and 27 px.*positions is a setting of transf"):
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


NO_COLOUR = {"hue": 0.0, "saturation": 0.0, "grey": 0.0}


def _grey(images: int, side: int) -> Described:
    return _source(images, side)._replace(grey=True)


def test_images_in_memory_are_found_grey_unless_one_that_is_looked_at_has_a_colour() -> None:
    pixels = photos(40, 24, 20)[:, :1].repeat(1, 3, 1, 1)
    found = describe(ArraySource("arrays", pixels))
    assert (found.grey, found.side, found.in_memory) == (True, 20, True)
    pixels[-1, 0, 3, 3] ^= 128
    assert not describe(ArraySource("arrays", pixels)).grey


def test_files_are_found_grey_unless_one_that_is_looked_at_has_a_colour(tmp_path: Path) -> None:
    for number, path in enumerate(save_images(tmp_path, 20, size=50)):
        grey = Image.open(path).convert("L").convert("RGB")
        grey.crop((0, 0, 50, 40 + number)).save(path.with_suffix(".jpg"), quality=70)
        path.unlink()
    (tmp_path / "image004.jpg").write_bytes(b"damaged")
    found = describe(open_source(str(tmp_path)))
    assert (found.grey, found.in_memory) == (True, False)
    Image.new("RGB", (50, 50), (90, 30, 30)).save(tmp_path / "image007.jpg")
    assert not describe(open_source(str(tmp_path))).grey


def test_what_cannot_be_looked_at_is_not_called_grey(tmp_path: Path) -> None:
    (tmp_path / "image.jpg").write_bytes(b"damaged")
    assert not describe(open_source(str(tmp_path))).grey


@pytest.mark.parametrize("side", [32, 64, 300])
def test_grey_images_have_no_steps_of_colour(side: int) -> None:
    asked = PretrainSettings(data="arrays")
    settings = resolve(asked, _grey(200, side), world_size=1, device=CPU)
    assert settings.view_options == NO_COLOUR
    (note,) = choices(asked, settings)
    assert "hue=0.0 saturation=0.0 grey=0.0" in note
    assert resolve(asked, _source(200, side), world_size=1, device=CPU).view_options == {}


def test_what_is_asked_for_wins_over_the_rule_for_grey_images() -> None:
    given = check_settings({"data": "arrays", "hue": 0.2, "blur": 0.1})
    settings = resolve(given, _grey(200, 32), world_size=1, device=CPU)
    assert settings.view_options == NO_COLOUR | {"hue": 0.2, "blur": 0.1}
    named = PretrainSettings(data="arrays", preset="cifar")
    assert resolve(named, _grey(200, 32), world_size=1, device=CPU).view_options == {}


def test_digits_and_recipes_keep_their_views_on_grey_images() -> None:
    digits = resolve(PretrainSettings(data="digits"), _grey(1000, 28), world_size=1, device=CPU)
    assert digits.view_options == {}
    for name in ("cifar10-cacr-k4", "digits-cacr-k4", "imagenet-moco-v3-resnet50-cacr"):
        recipe = RECIPES[name]
        asked = check_settings({"data": recipe.data.name, **with_recipe({"recipe": name})})
        settings = resolve(asked, recipe.data._replace(grey=True), world_size=8, device=CPU)
        assert settings.view_options == asked.view_options, name


def test_a_resolved_run_is_not_decided_anew() -> None:
    """Its images may have changed, or a later version may decide otherwise: what is stored stays."""
    asked = PretrainSettings(data="arrays")
    for first, then in ((_grey(200, 32), _source(200, 32)), (_source(200, 32), _grey(200, 32))):
        settings = resolve(asked, first, world_size=1, device=CPU)
        assert resolve(settings, then, world_size=1, device=CPU) == settings


def test_steps_of_colour_do_nothing_to_grey_images() -> None:
    """So a run is the same without them but for their time: the other draws stay what they were."""
    images = photos(30, 32, 32)[:, :1].repeat(1, 3, 1, 1)
    data = _grey(30, 32)
    made = []
    for preset in ("auto", "cifar"):
        settings = resolve(PretrainSettings(data="a", preset=preset), data, world_size=1, device=CPU)
        chosen = preset_of(settings)
        views = Views(chosen.for_views(3), (0.0,) * 3, (1.0,) * 3)
        made.append(views(images, torch.Generator().manual_seed(1))[0])
    torch.testing.assert_close(*made, rtol=0, atol=1e-3)  # luma weights add up to 0.9999
