"""What is given beside a recipe, a method or another run wins, and takes away no more than what it replaces."""

from typing import Any

import pytest

from cacr.config import PretrainSettings
from cacr.errors import SettingsError
from cacr.methods import METHODS
from cacr.training.settings.check import check_settings
from cacr.training.settings.layers import completed_by, with_recipe
from cacr.training.settings.recipes import RECIPES

RELEASED = "imagenet-moco-v3-resnet50-released"
"""A recipe without a method: its objective is none's."""

ONE_WAY = {"symmetric": False, "in_batch": "off"}
"""What makes a queue MoCo v2."""

FNC = METHODS["fnc"].objective_options


def _settings(**values: Any) -> PretrainSettings:
    return check_settings(with_recipe({"data": "x", **values}))


OTHERS = [
    (recipe, method)
    for recipe in RECIPES
    for method in ("byol", "moco_v2", "cacr")
    if RECIPES[recipe].settings.get("method") != method
]
"""Recipes with a method that is not theirs."""


@pytest.mark.parametrize(("recipe", "name"), OTHERS)
def test_a_given_method_wins_over_every_recipe(recipe: str, name: str) -> None:
    method = METHODS[name]
    found = with_recipe({"data": "x", "recipe": recipe, "method": name})
    assert found["method"] == name
    for owned, value in method.values().items():
        local = "multicrop" in recipe and owned == "views"  # the crops of the recipe's preset
        assert found.get(owned) == (None if local else value), owned


def test_a_recipe_without_a_method_has_none_until_one_is_given() -> None:
    alone, other = _settings(recipe=RELEASED), _settings(recipe=RELEASED, method="byol")
    assert (alone.method, alone.objective) == (None, "released_moco_v3")
    assert (other.method, other.objective, other.predictor) == ("byol", "byol", "byol")
    assert (other.encoder, other.epochs, other.batch_size) == ("resnet50", 1000, 4096)


def test_options_in_a_mapping_are_merged_with_those_of_the_method() -> None:
    fnc = _settings(method="fnc", objective_options={"fnc_top": 5})
    assert (fnc.method, fnc.objective_options) == ("fnc", {**FNC, "fnc_top": 5})
    moco = _settings(method="moco_v2", framework_options={"queue_size": 64})
    assert (moco.method, moco.framework_options) == ("moco_v2", {**ONE_WAY, "queue_size": 64})


@pytest.mark.parametrize(
    ("recipe", "options", "given"),
    [
        ("imagenet-fnc", "objective_options", {"fnc_top": 5}),
        ("imagenet-fnc", "view_options", {"grey": 0.1}),
        ("imagenet-moco-v2-one-way", "framework_options", {"queue_size": 256}),
        ("imagenet-moco-v2-symmetric", "framework_options", {"queue_size": 256}),
    ],
)
def test_options_in_a_mapping_are_merged_with_those_of_the_recipe(
    recipe: str, options: str, given: dict[str, Any]
) -> None:
    own = RECIPES[recipe].settings[options]
    by_mapping, by_name = _settings(recipe=recipe, **{options: given}), _settings(recipe=recipe, **given)
    assert getattr(by_mapping, options) == getattr(by_name, options) == {**own, **given}


def test_options_of_a_recipe_or_another_run_are_complete() -> None:
    """MoCo v2 in both directions is what the recipe leaves out of the method."""
    assert "symmetric" not in _settings(recipe="imagenet-moco-v2-symmetric").framework_options
    other = {"method": "moco_v2", "framework": "queue", "framework_options": {"queue_size": 64}}
    assert completed_by(other, {})["framework_options"] == {"queue_size": 64}


@pytest.mark.parametrize("given", [{"symmetric": "auto"}, {"framework_options": {"symmetric": "auto"}}])
def test_auto_is_the_methods_value(given: dict[str, Any]) -> None:
    assert _settings(method="moco_v2", **given).framework_options == ONE_WAY
    recipe = _settings(recipe="imagenet-moco-v2-one-way", **given).framework_options
    assert recipe == {**ONE_WAY, "queue_size": 65_536, "ema": 0.999}
    assert _settings(method="moco_v2", views="auto", head="auto").head == "moco_v2"


@pytest.mark.parametrize("given", [{"queue_size": "auto"}, {"framework_options": {"queue_size": "auto"}}])
def test_auto_is_the_rule_where_the_method_says_nothing(given: dict[str, Any]) -> None:
    found = _settings(recipe="imagenet-moco-v2-one-way", **given)
    assert found.framework_options == {**ONE_WAY, "ema": 0.999}
    assert _settings(recipe="cifar10-cacr-k4", views="auto").views == "auto"


@pytest.mark.parametrize("chosen", [{"method": "simclr"}, {"recipe": "cifar10-cacr-k1"}])
def test_options_without_effect_in_another_framework_go_unless_they_were_typed(
    chosen: dict[str, str],
) -> None:
    assert "negatives" in _settings(**chosen).objective_options
    assert "negatives" not in _settings(**chosen, framework="queue").objective_options
    for typed in ({"negatives": "all"}, {"objective_options": {"negatives": "all"}}):
        with pytest.raises(SettingsError, match="negatives has no effect in framework queue: leave it out"):
            _settings(**chosen, framework="queue", **typed)


def test_a_predictor_goes_with_its_framework_unless_it_was_typed() -> None:
    assert _settings(method="moco_v3", framework="in_batch").predictor == "auto"
    assert _settings(method="moco_v3", framework="siamese").predictor == "moco_v3"
    with pytest.raises(SettingsError, match="has no predictor"):
        _settings(method="moco_v3", framework="in_batch", predictor="byol")


@pytest.mark.parametrize(
    ("given", "views"),
    [
        ({"recipe": "imagenet-swav", "preset": "multicrop-swav"}, "auto"),
        ({"recipe": "imagenet-swav", "preset": "byol"}, 2),
        ({"recipe": "imagenet-swav", "preset": "multicrop-swav", "views": 4}, 4),
        ({"recipe": "imagenet-swav-multicrop"}, 8),
        ({"recipe": "imagenet-swav-multicrop", "preset": "multicrop-swav"}, 8),
        ({"recipe": "imagenet-swav-multicrop", "preset": "multicrop-cacr"}, "auto"),
        ({"recipe": "imagenet-swav-multicrop", "preset": "moco-v2"}, 2),
        ({"recipe": "imagenet-swav-multicrop", "method": "byol"}, "auto"),
        ({"method": "swav", "preset": "multicrop-swav"}, "auto"),
    ],
)
def test_a_preset_with_local_crops_brings_its_number_of_views(
    given: dict[str, Any], views: int | str
) -> None:
    assert _settings(**given).views == views


def test_a_given_rate_replaces_that_of_a_recipe() -> None:
    recipe = {"recipe": "imagenet-byol"}
    assert with_recipe(recipe)["base_lr"] > 0
    assert "base_lr" not in with_recipe({**recipe, "lr": 0.03})
    assert with_recipe({**recipe, "lr": "auto"})["base_lr"] > 0
