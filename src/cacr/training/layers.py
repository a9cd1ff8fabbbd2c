"""Merge settings from several places: given values override a recipe or another run, which override a method."""

from collections.abc import Mapping
from typing import Any

from cacr.methods import DEFAULT, METHODS, OWNED
from cacr.training.recipes import RECIPES
from cacr.views import PRESETS


def with_recipe(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values, completed by their recipe, if they name one, and by their method."""
    if values.get("recipe"):
        values = above(values, RECIPES[str(values["recipe"])].settings)
    return with_method(values)


def with_method(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values, completed by their method; a given framework or objective changes the method."""
    name = values.get("method", DEFAULT)
    if name not in METHODS:  # none, or a wrong name, which the check of settings reports
        return dict(values)
    method = METHODS[name]
    below = method.values()
    preset = PRESETS.get(str(values.get("preset")))
    if preset is not None and preset.local is not None:
        below.pop("views", None)  # a multi-crop preset sets the number of views
    merged = above(values, below)
    meant = method.is_meant_by(merged["framework"], merged["objective"])
    return merged | {"method": name if meant else None}


def above(values: Mapping[str, Any], below: Mapping[str, Any]) -> dict[str, Any]:
    """Given values, completed by those of a recipe, a method or another run.

    If the framework, objective or preset is replaced, its options are dropped; if the method is replaced, all its
    settings are dropped.
    """
    settings = dict(below)
    if values.get("method") not in (None, settings.get("method", values.get("method"))):
        settings = {name: value for name, value in settings.items() if name not in OWNED}
    owners = {"framework": "framework_options", "objective": "objective_options", "preset": "view_options"}
    for owner, options in owners.items():
        if values.get(owner, settings.get(owner)) != settings.get(owner):
            settings.pop(options, None)
    return settings | dict(values)
