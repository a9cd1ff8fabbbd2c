"""From what a user typed to settings: every wrong name and value is found, and reported at once."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from inspect import signature
from typing import Any

from cacr.config import PretrainSettings, make
from cacr.data.imbalance import class_fractions
from cacr.encoders import require_encoder
from cacr.errors import SettingsError, UserError
from cacr.losses import OBJECTIVES
from cacr.methods import FRAMEWORKS
from cacr.registry import nearest
from cacr.views import PRESETS, Augmentation

VIEW_OPTIONS = frozenset(field.name for field in fields(Augmentation)) | {"mean", "std"}


def check_settings(values: Mapping[str, Any]) -> PretrainSettings:
    """Settings from flat names and values.

    A name is a setting of :class:`PretrainSettings`, else an option of the chosen objective (``t_neg``),
    else an option of the view preset (``grey``).

    Raises:
        SettingsError: with every wrong name and value.
    """
    settings, options, view_options, problems = _sort(values)
    settings["objective_options"] = {**settings.get("objective_options", {}), **options}
    settings["view_options"] = {**settings.get("view_options", {}), **view_options}
    try:
        checked = make(PretrainSettings, settings)
    except SettingsError as error:
        problems += error.problems
        checked = PretrainSettings.model_construct(**settings)
    problems += _wrong_names(checked)
    if problems:
        raise SettingsError(problems)
    return checked


def _sort(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], list[str]]:
    """Values into (settings, objective's options, view options, problems)."""
    objective = str(values.get("objective", PretrainSettings.model_fields["objective"].default))
    objective_options = objective_option_names(objective) if objective in OBJECTIVES else []
    settings: dict[str, Any] = {}
    options: dict[str, Any] = {}
    view_options: dict[str, Any] = {}
    problems = []
    known = [*PretrainSettings.model_fields, *objective_options, *VIEW_OPTIONS]
    for name, value in values.items():
        if name in PretrainSettings.model_fields:
            settings[name] = value
        elif name in objective_options:
            options[name] = value
        elif name in VIEW_OPTIONS:
            view_options[name] = value
        else:
            hint = nearest(name, known) if nearest(name, known).startswith("did you") else "see `cacr list`"
            problems.append(f"there is no setting {name!r}; {hint}")
    return settings, options, view_options, problems


def objective_option_names(objective: str) -> list[str]:
    """The keyword arguments of an objective."""
    return list(signature(OBJECTIVES[objective]).parameters)


def _check_objective(settings: PretrainSettings) -> None:
    """Build the objective, so that it looks at its options, and ask the framework whether it can use it."""
    objective = OBJECTIVES[settings.objective](**settings.objective_options)
    if settings.framework in FRAMEWORKS and (why := FRAMEWORKS[settings.framework].refusal(objective)):
        raise UserError(f"objective {settings.objective}: {why}")


def _wrong_names(settings: PretrainSettings) -> list[str]:
    """What is wrong with names and options that refer to registered things."""
    attempts: list[Callable[[], object]] = [
        lambda: FRAMEWORKS[settings.framework],
        lambda: _check_objective(settings),
        lambda: PRESETS["cifar"].with_options(**settings.view_options),
    ]
    if settings.encoder != "auto":
        attempts.append(lambda: require_encoder(settings.encoder))
    if settings.preset != "auto":
        attempts.append(lambda: PRESETS[settings.preset])
    if settings.imbalance != "none":
        attempts.append(lambda: class_fractions(settings.imbalance, classes=2))
    problems: list[str] = []
    for attempt in attempts:
        try:
            attempt()
        except SettingsError as error:
            problems += error.problems
        except (UserError, ValueError, TypeError) as error:
            problems.append(str(error))
    return problems
