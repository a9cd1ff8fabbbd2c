"""Presets are the recipes' views, and can be changed by name."""

import pytest

from cacr.errors import SettingsError, UserError
from cacr.registry import UnknownNameError
from cacr.views import PRESETS, Augmentation, preset_for, probe_test, probe_train


def test_all_presets_are_there_and_listed_with_a_line_of_their_own() -> None:
    names = {
        "cifar",
        "cifar100",
        "stl",
        "hcl",
        "moco-v2",
        "byol",
        "multicrop-swav",
        "multicrop-cacr",
        "digits",
        "clip",
    }
    assert set(PRESETS) == names | {"probe-train", "probe-test"}
    summaries = PRESETS.summaries()
    assert len(set(summaries.values())) == len(summaries)
    assert all(PRESETS[name].name == name and summaries[name] == PRESETS[name].summary for name in PRESETS)


def test_the_recipes_of_the_paper() -> None:
    """Algorithms 1 and 2 of the paper."""
    (cifar,) = PRESETS["cifar"].views
    assert (cifar.size, cifar.scale, cifar.flip, cifar.jitter, cifar.grey, cifar.blur) == (
        32,
        (0.2, 1),
        0.5,
        1,
        0.2,
        0,
    )
    assert (cifar.brightness, cifar.contrast, cifar.saturation, cifar.hue) == (0.4, 0.4, 0.4, 0.4)
    assert PRESETS["cifar"].mean == (0.4914, 0.4822, 0.4465)
    assert PRESETS["cifar100"].std == (0.2675, 0.2565, 0.2761)
    assert PRESETS["cifar100"].views == PRESETS["cifar"].views
    (stl,) = PRESETS["stl"].views
    assert (stl.size, stl.scale, stl.hue) == (64, (0.08, 1), 0.4)
    (moco,) = PRESETS["moco-v2"].views
    assert (moco.size, moco.scale, moco.jitter, moco.hue, moco.grey) == (224, (0.2, 1), 0.8, 0.1, 0.2)
    assert (moco.blur, moco.blur_sigma, moco.solarise) == (0.5, (0.1, 2.0), 0)


def test_a_view_describes_what_is_not_the_default() -> None:
    view = Augmentation(32, scale=(0.2, 1.0), jitter=0.8, interpolation="bicubic", flip=0.5)
    assert view.describe() == "size=32 scale=0.2,1 interpolation=bicubic jitter=0.8"
    assert "scale=None resize=70" in probe_test(64, (0.5,) * 3, (0.5,) * 3).views[0].describe()


def test_asymmetric_pair_alternates() -> None:
    first, second, third = PRESETS["byol"].for_views(3)
    assert (first.blur, first.solarise) == (1.0, 0.0)
    assert (second.blur, second.solarise) == (0.1, 0.2)
    assert first == third
    assert (first.saturation, first.hue) == (0.2, 0.1)


@pytest.mark.parametrize(
    ("name", "count", "scale"), [("multicrop-swav", 8, (0.05, 0.14)), ("multicrop-cacr", 10, (0.05, 0.4))]
)
def test_multicrop_has_two_large_views_and_then_small_ones(
    name: str, count: int, scale: tuple[float, float]
) -> None:
    preset = PRESETS[name]
    assert preset.default_views == count
    views = preset.for_views(count)
    assert [view.size for view in views] == [224, 224] + [96] * (count - 2)
    assert views[2].scale == scale
    assert [view.size for view in preset.for_views(1)] == [224]


def test_digits_are_never_mirrored_and_have_no_colour() -> None:
    (view,) = PRESETS["digits"].views
    assert (view.size, view.flip, view.hue, view.saturation) == (32, 0, 0, 0)


@pytest.mark.parametrize(("size", "shorter"), [(28, 28), (32, 32), (64, 70), (96, 110), (224, 256)])
def test_evaluation_for_any_size(size: int, shorter: int) -> None:
    mean, std = (0.1, 0.2, 0.3), (0.4, 0.5, 0.6)
    (view,) = probe_test(size, mean, std).views
    assert (view.size, view.resize, view.scale, view.flip) == (size, shorter, None, 0)
    assert PRESETS["probe-test"].resized(size).views == (view,)
    (train,) = probe_train(size, mean, std).views
    assert (train.size, train.jitter, train.grey, train.blur, train.flip) == (size, 0, 0, 0, 0.5)
    assert train.scale == ((0.2, 1.0) if size <= 32 else (0.08, 1.0))
    assert probe_train(size, mean, std).mean == mean


def test_photos_pick_a_preset_by_size() -> None:
    assert [preset_for(size) for size in (28, 32, 64, 96, 224, 1000)] == [
        "cifar",
        "cifar",
        "stl",
        "stl",
        "moco-v2",
        "moco-v2",
    ]
    assert all(preset_for(size) in PRESETS for size in range(8, 512))


def test_resizing_keeps_proportions() -> None:
    small = PRESETS["multicrop-swav"].resized(112)
    assert [view.size for view in small.for_views(3)] == [112, 112, 48]
    assert small.views[0].blur_kernel == 11
    assert PRESETS["cifar"].resized(32) == PRESETS["cifar"]


def test_options_from_text_and_values() -> None:
    changed = PRESETS["cifar"].with_options(
        scale="0.5,1", jitter="0.8", size="28", mean="0.1,0.2,0.3", hue=0.1, interpolation="bicubic"
    )
    (view,) = changed.views
    assert (view.scale, view.jitter, view.size, view.hue) == ((0.5, 1.0), 0.8, 28, 0.1)
    assert view.interpolation == "bicubic"
    assert changed.mean == (0.1, 0.2, 0.3)
    assert view.grey == 0.2 and changed.std == PRESETS["cifar"].std
    local = PRESETS["multicrop-swav"].with_options(local_size=64, grey=0)
    assert [view.size for view in local.for_views(3)] == [224, 224, 64]
    assert [view.grey for view in local.for_views(3)] == [0, 0, 0.2]


def test_all_wrong_options_are_reported_at_once_with_the_nearest_names() -> None:
    with pytest.raises(SettingsError) as caught:
        PRESETS["cifar"].with_options(gray="0.1", scale="0.5", blur_kernel="2.5", grey="lots", local_size=3)
    message = str(caught.value)
    assert len(caught.value.problems) == 5
    assert "'gray'" in message and "grey" in message
    assert "'0.5' is not 2 numbers" in message
    assert "'2.5' is not an integer" in message
    assert "'lots'" in message
    assert "'local_size'" in message


def test_values_out_of_bounds_are_reported_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        PRESETS["cifar"].with_options(flip=2, hue=0.7, scale="0,1", blur=0.5, blur_kernel=65)
    assert len(caught.value.problems) == 4
    with pytest.raises(SettingsError, match="resize"):
        Augmentation(32, scale=None)
    with pytest.raises(SettingsError, match="std"):
        PRESETS["cifar"].with_options(std="0.1,0,0.1")


def test_unknown_preset_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="moco-v2"):
        PRESETS["moco"]


@pytest.mark.parametrize("options", [{"mean": "1e300,1,1"}, {"std": "1,inf,1"}, {"brightness": 1e300}])
def test_numbers_that_float32_cannot_hold_are_refused(options: dict[str, object]) -> None:
    with pytest.raises((UserError, ValueError), match="number"):
        PRESETS["cifar"].with_options(**options)
