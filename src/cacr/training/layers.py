"""What was given, above a recipe or another run, above a method: how settings from several places become one set."""

from collections.abc import Mapping
from typing import Any

from cacr.methods import DEFAULT, METHODS, OWNED
from cacr.training.recipes import RECIPES
from cacr.views import PRESETS


def with_recipe(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values with those of their recipe, if they name one, and of their method below them."""
    if values.get("recipe"):
        values = above(values, RECIPES[str(values["recipe"])].settings)
    return with_method(values)


def with_method(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values with those of their method below them; a framework or objective that is given makes the method another."""
    name = values.get("method", DEFAULT)
    if name not in METHODS:  # none, or a name that the check of settings will report
        return dict(values)
    method = METHODS[name]
    below = method.values()
    preset = PRESETS.get(str(values.get("preset")))
    if preset is not None and preset.local is not None:
        below.pop("views", None)  # a multi-crop preset says how many
    merged = above(values, below)
    meant = method.is_meant_by(merged["framework"], merged["objective"])
    return merged | {"method": name if meant else None}


def above(values: Mapping[str, Any], below: Mapping[str, Any]) -> dict[str, Any]:
    """Values that were given, and those of a recipe, a method or another run below them.

    Options of the framework, objective and preset below fall away with the thing they belong to, and with a method all
    that it decides.
    """
    settings = dict(below)
    if values.get("method") not in (None, settings.get("method", values.get("method"))):
        settings = {name: value for name, value in settings.items() if name not in OWNED}
    owners = {"framework": "framework_options", "objective": "objective_options", "preset": "view_options"}
    for owner, options in owners.items():
        if values.get(owner, settings.get(owner)) != settings.get(owner):
            settings.pop(options, None)
    return settings | dict(values)
