"""Merge settings from several places: given values override a recipe or another run, which override a method."""

from collections.abc import Mapping, Set
from typing import Any

from cacr.frameworks import FRAMEWORKS
from cacr.methods import DEFAULT, METHODS, OWNED
from cacr.training.settings.recipes import RECIPES
from cacr.views import PRESETS

OWNERS = {"framework": "framework_options", "objective": "objective_options", "preset": "view_options"}
"""Settings that name something with options, and the settings that hold these options."""

_Values = Mapping[str, Any]


def with_recipe(values: _Values) -> dict[str, Any]:
    """Values, completed by their recipe, if they name one, and by their method."""
    name = values.get("recipe")
    return completed_by(RECIPES[str(name)].settings if name else {}, values)


def completed_by(base: _Values, values: _Values) -> dict[str, Any]:
    """Given values, completed by a recipe or another run, and by the method.

    Options that are given in a mapping are merged with those below, one by one, like options that are given by name.
    The base is complete: the method adds no options to those that the base has. A given ``auto`` stands for the value
    of the method, or for the rule if the method has none. If the framework or objective is not that of the method, the
    run has no method.

    Args:
        base: settings of a recipe or another run; empty: none.
        values: the settings that the user gave.
    """
    kept = _kept(values, base)
    name = {**kept, **values}.get("method", DEFAULT)
    if name not in METHODS:  # none, or a wrong name, which the check of settings reports
        return _merged(values, kept, {})
    method = METHODS[name]
    merged = _merged(values, kept, _kept({**kept, **values}, method.values() | {"method": name}))
    meant = method.is_meant_by(merged["framework"], merged["objective"])
    return merged | {"method": name if meant else None}


def _kept(values: _Values, below: _Values) -> dict[str, Any]:
    """What is left of settings below given values.

    With another method, all settings that methods own are dropped; with another framework, objective or preset, what
    belongs to it. The number of views belongs to presets with local crops. A given ``lr`` replaces ``base_lr``.
    """
    kept = dict(below)
    if values.get("method") not in (None, below.get("method")):
        kept = {name: value for name, value in kept.items() if name not in OWNED}
    replaced = {owner for owner in OWNERS if values.get(owner, kept.get(owner)) != kept.get(owner)}
    for owner in replaced:
        kept.pop(OWNERS[owner], None)
    if "framework" in replaced:
        kept = _fitting(kept, str(values["framework"]))
    if "preset" in replaced and (_has_local(values["preset"]) or _has_local(below.get("preset"))):
        kept.pop("views", None)
    if values.get("lr", "auto") != "auto":
        kept.pop("base_lr", None)  # it would have no effect
    return kept


def _fitting(kept: _Values, name: str) -> dict[str, Any]:
    """Settings that were meant for another framework, without those that have no effect in this one."""
    framework, fitting = FRAMEWORKS.get(name), dict(kept)
    if framework is None:  # a wrong name, which the check of settings reports
        return fitting
    if not framework.has_predictor:
        fitting.pop("predictor", None)
    if "objective_options" in kept:
        options = kept["objective_options"].items()
        fitting["objective_options"] = {k: v for k, v in options if k not in framework.meaningless_options}
    return fitting


def _merged(values: _Values, base: _Values, method: _Values) -> dict[str, Any]:
    """Values above those of the base, above those of the method; ``auto`` falls back to the method."""
    automatic = {name for name, value in values.items() if value == "auto" and name not in OWNERS}
    merged = {**method, **_without(base, automatic), **_without(values, automatic & method.keys())}
    for options in OWNERS.values():
        given, own = values.get(options, {}), method.get(options, {})
        if isinstance(given, Mapping):  # else the check of settings reports it
            automatic |= {name for name, value in given.items() if value == "auto"}
            known = {**_without(base.get(options, own), automatic), **_only(own, automatic)}
            merged[options] = known | _without(given, automatic)
        merged = _without(merged, automatic & own.keys())
    return merged


def _without(values: _Values, names: Set[str]) -> dict[str, Any]:
    """All values but those with these names."""
    return {name: value for name, value in values.items() if name not in names}


def _only(values: _Values, names: Set[str]) -> dict[str, Any]:
    """The values with these names."""
    return {name: value for name, value in values.items() if name in names}


def _has_local(preset: object) -> bool:
    """Whether a preset, by its name, has local crops."""
    found = PRESETS.get(str(preset))
    return found is not None and found.local is not None
