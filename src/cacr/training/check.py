"""From what a user typed to settings: every wrong name and value is found, and reported at once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from importlib.util import find_spec
from inspect import signature
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from cacr.config import PretrainSettings, make, reason
from cacr.data.imbalance import class_fractions
from cacr.encoders import require_encoder
from cacr.errors import MissingExtraError, SettingsError, UserError
from cacr.losses import OBJECTIVES
from cacr.methods import FRAMEWORKS
from cacr.registry import nearest
from cacr.views import PRESETS, Augmentation

_VIEWS = [item.name for item in fields(Augmentation)]
VIEW_OPTIONS = frozenset([*_VIEWS, *(f"local_{name}" for name in _VIEWS), "mean", "std"])


def check_settings(values: Mapping[str, Any]) -> PretrainSettings:
    """Settings from flat names and values.

    A name is a setting of :class:`PretrainSettings`, else an option of the chosen objective (``t_neg``),
    else an option of the view preset (``grey``).

    Raises:
        SettingsError: with every wrong name and value.
    """
    found = _sort(values)
    problems = found.problems
    for name, options in (("objective_options", found.objective), ("view_options", found.views)):
        if isinstance(found.settings.setdefault(name, {}), Mapping):
            found.settings[name] = {**found.settings[name], **options}
    try:
        checked = make(PretrainSettings, found.settings)
    except SettingsError as error:
        problems += error.problems
        checked = PretrainSettings.model_construct(**found.settings)
    objective_options, wrong = _parse_objective_options(checked)
    checked = checked.model_copy(update={"objective_options": objective_options})
    problems += wrong or _wrong_names(checked)
    if problems:
        raise SettingsError(problems)
    return checked


@dataclass
class _Sorted:
    """Values by where they belong."""

    settings: dict[str, Any] = field(default_factory=dict)
    objective: dict[str, Any] = field(default_factory=dict)
    views: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def _sort(values: Mapping[str, Any]) -> _Sorted:
    objective = str(values.get("objective", PretrainSettings.model_fields["objective"].default))
    objective_options = objective_option_names(objective) if objective in OBJECTIVES else []
    known = [*PretrainSettings.model_fields, *objective_options, *VIEW_OPTIONS]
    found = _Sorted()
    for name, value in values.items():
        if name in PretrainSettings.model_fields:
            found.settings[name] = value
        elif name in objective_options:
            found.objective[name] = value
        elif name in VIEW_OPTIONS:
            found.views[name] = value
        else:
            hint = nearest(name, known)
            hint = hint if hint.startswith("did you mean") else "see `cacr list`"
            found.problems.append(f"there is no setting {name!r}; {hint}")
    return found


def objective_option_names(objective: str) -> list[str]:
    """The keyword arguments of an objective."""
    return list(signature(OBJECTIVES[objective]).parameters)


def _parse_objective_options(settings: PretrainSettings) -> tuple[dict[str, Any], list[str]]:
    """The objective's options as the types of its arguments, and what cannot be read so."""
    options = settings.objective_options
    if settings.objective not in OBJECTIVES or not isinstance(options, Mapping):
        return options, []
    types = get_type_hints(OBJECTIVES[settings.objective].__init__)
    parsed, problems = dict(options), []
    for name, value in options.items():
        if name in types:
            try:
                parsed[name] = TypeAdapter(types[name]).validate_python(value)
            except ValidationError as error:
                problems.append(f"{name} {reason(error.errors()[0])}")
    return parsed, problems


def _wrong_names(settings: PretrainSettings) -> list[str]:
    """What is wrong with names and options that refer to registered things, and with missing extras."""
    attempts: list[Callable[[], object]] = [
        lambda: FRAMEWORKS[settings.framework],
        lambda: _check_objective(settings),
        lambda: PRESETS[_a_preset(settings)].with_options(**settings.view_options),
        lambda: settings.encoder == "auto" or require_encoder(settings.encoder),  # type: ignore[func-returns-value]
        lambda: settings.preset == "auto" or PRESETS[settings.preset],
        lambda: settings.imbalance == "none" or class_fractions(settings.imbalance, classes=2),
        lambda: _require_extra("tensorboard", settings.tensorboard),
        lambda: _require_extra("wandb", settings.wandb),
    ]
    problems: list[str] = []
    for attempt in attempts:
        try:
            attempt()
        except SettingsError as error:
            problems += error.problems
        except (UserError, ValueError, TypeError) as error:
            problems.append(str(error))
    return problems


def _check_objective(settings: PretrainSettings) -> None:
    """Build the objective, so that it looks at its options, and ask the framework whether it can use it."""
    objective = OBJECTIVES[settings.objective](**settings.objective_options)
    if settings.framework in FRAMEWORKS and (why := FRAMEWORKS[settings.framework].refusal(objective)):
        raise UserError(f"objective {settings.objective}: {why}")


def _a_preset(settings: PretrainSettings) -> str:
    """The preset whose options are meant; any simple one while it is not known."""
    return settings.preset if settings.preset in PRESETS else "cifar"


def _require_extra(package: str, wanted: bool) -> None:
    if wanted and find_spec(package) is None:
        raise MissingExtraError(f"the setting {package}", package)
