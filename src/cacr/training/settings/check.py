"""Turn user input into settings; find every wrong name and value, and report them all at once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from inspect import signature
from types import NoneType
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from cacr.config import PretrainSettings
from cacr.data.imbalance import class_fractions
from cacr.encoders import HEADS, PREDICTORS, require_encoder
from cacr.errors import MissingExtraError, SettingsError, UserError
from cacr.frameworks import FRAMEWORKS, Framework
from cacr.losses import OBJECTIVES
from cacr.made import make_what_fits, reason
from cacr.methods import METHODS
from cacr.registry import nearest
from cacr.training.settings.rules import NO_PREDICTOR
from cacr.views import PRESETS
from cacr.views.presets import option_names

VIEW_OPTIONS = option_names(local=True) - {"size"}
"""Options of the views, except their size: that is ``image_size``, which the encoder needs too."""


def check_settings(values: Mapping[str, Any]) -> PretrainSettings:
    """Settings from names and values.

    A name is a setting of :class:`PretrainSettings`, an option of the chosen framework (``queue_size``), of the
    objective
    (``t_neg``) or of the view preset (``grey``). The first match is used.

    Raises:
        SettingsError: lists every wrong name and value.
    """
    found = _sort(values)
    problems = found.problems
    for name, options in (
        ("framework_options", found.framework),
        ("objective_options", found.objective),
        ("view_options", found.views),
    ):
        if isinstance(found.settings.setdefault(name, {}), Mapping):
            found.settings[name] = {**found.settings[name], **options}
    checked, wrong_values = make_what_fits(PretrainSettings, found.settings)
    problems += wrong_values
    parsed, wrong = {}, []
    for kind, registry in (("framework", FRAMEWORKS), ("objective", OBJECTIVES)):
        name = f"{kind}_options"
        thing = registry.get(getattr(checked, kind))
        parsed[name], unread = _parse(getattr(checked, name), thing)
        wrong += unread
    checked = checked.model_copy(update=parsed)
    problems += wrong + _wrong_names(checked, with_objective=not wrong)
    if not wrong and checked.framework in FRAMEWORKS:
        problems += FRAMEWORKS[checked.framework].option_problems(checked.framework_options)
    if problems:
        raise SettingsError(problems)
    return checked


@dataclass
class _Sorted:
    """Values by the object that they belong to."""

    settings: dict[str, Any] = field(default_factory=dict)
    framework: dict[str, Any] = field(default_factory=dict)
    objective: dict[str, Any] = field(default_factory=dict)
    views: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def _sort(values: Mapping[str, Any]) -> _Sorted:
    framework, objective = (
        str(values.get(name, PretrainSettings.model_fields[name].default))
        for name in ("framework", "objective")
    )
    framework_options = FRAMEWORKS[framework].option_names() if framework in FRAMEWORKS else []
    objective_options = objective_option_names(objective) if objective in OBJECTIVES else []
    known = [*PretrainSettings.model_fields, *framework_options, *objective_options, *VIEW_OPTIONS]
    found = _Sorted()
    for name, value in values.items():
        if name in PretrainSettings.model_fields:
            found.settings[name] = value
        elif name in framework_options:
            found.framework[name] = value
        elif name in objective_options:
            found.objective[name] = value
        elif name in VIEW_OPTIONS:
            found.views[name] = value
        else:
            hint = _owner(name) or nearest(name, known, otherwise="see `cacr list settings`")
            found.problems.append(f"there is no setting {name!r}; {hint}")
    return found


def _owner(name: str) -> str:
    """Frameworks or objectives that were not chosen, but have an option of this name."""
    frameworks = [f"framework {kind}" for kind in FRAMEWORKS if name in FRAMEWORKS[kind].option_names()]
    objectives = [f"objective {kind}" for kind in OBJECTIVES if name in objective_option_names(kind)]
    owners = [*frameworks, *objectives]
    if not owners:
        return ""
    methods = [
        method
        for method in METHODS
        if name in FRAMEWORKS[METHODS[method].framework].option_names()
        or name in objective_option_names(METHODS[method].objective)
    ]
    users = f" (--method {', '.join(methods)})" if methods else ""
    return f"it belongs to {', '.join(owners)}{users}"


def objective_option_names(objective: str) -> list[str]:
    """The keyword arguments of an objective."""
    return list(signature(OBJECTIVES[objective]).parameters)


def _parse(options: dict[str, Any], thing: type | None) -> tuple[dict[str, Any], list[str]]:
    """Convert options to the types of the arguments of a framework or objective; also return what cannot be converted.

    ``auto`` counts as not given.
    """
    if thing is None or not isinstance(options, Mapping):
        return options, []
    types = get_type_hints(thing.__init__, include_extras=True)  # type: ignore[misc]
    parsed, problems = {name: value for name, value in options.items() if value != "auto"}, []
    for name, value in parsed.items():
        if value == "none" and NoneType in get_args(types.get(name)):
            parsed[name] = None
        elif name in types:
            try:
                parsed[name] = TypeAdapter(types[name]).validate_python(value)
            except ValidationError as error:
                problems.append(f"{name} {reason(error.errors()[0])}")
    return parsed, problems


def _wrong_names(settings: PretrainSettings, *, with_objective: bool) -> list[str]:
    """Problems with names and options of registered objects, and missing extras.

    An objective can be built only if its options could be converted.
    """
    attempts: list[Callable[[], object]] = [
        lambda: settings.method is None or METHODS[settings.method],
        lambda: FRAMEWORKS[settings.framework],
        lambda: _check_objective(settings) if with_objective else OBJECTIVES[settings.objective],
        lambda: _check_views(settings),
        lambda: _check_number_of_views(settings),
        lambda: _check_probes(settings),
        lambda: settings.encoder == "auto" or require_encoder(settings.encoder),  # type: ignore[func-returns-value]
        lambda: settings.preset == "auto" or PRESETS[settings.preset],
        lambda: settings.head == "auto" or HEADS[settings.head],
        lambda: _check_predictor(settings),
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
    """Build the objective, which checks its options, and ask the framework whether it can use it."""
    kind, options = OBJECTIVES[settings.objective], settings.objective_options
    kind(**options)
    if settings.framework not in FRAMEWORKS:
        return
    framework = FRAMEWORKS[settings.framework]
    if unused := framework.meaningless_options & options.keys():
        raise UserError(
            f"{', '.join(sorted(unused))} has no effect in framework {settings.framework}: leave it out"
        )
    defaults = {name: each.default for name, each in signature(kind).parameters.items()}
    for name in kind.only_with.keys() & options.keys():
        other, values = kind.only_with[name]
        if options.get(other, defaults[other]) not in values:
            raise UserError(
                f"{name} has no effect without {other}={' or '.join(values)}: leave it out, or set {other}"
            )
    preset = PRESETS.get(settings.preset)
    local = preset is not None and preset.local is not None
    if options.get("local_keys") and not local:
        raise UserError(
            "local_keys=true has no effect without local crops: use a preset that has them, such as multicrop-cacr"
        )
    objective = kind(**framework.objective_options(kind, options, local=local))
    if why := framework.refusal(objective, local=local):
        raise UserError(f"framework {settings.framework} cannot use objective {settings.objective}: {why}")
    if local and (why := framework.unused_crops(objective, settings.framework_options)):
        raise UserError(why)
    if settings.exchange == "ring" and not objective.supports_ring:
        given = "".join(f" with {name}={value}" for name, value in options.items())
        raise UserError(
            f"exchange=ring does not work with objective {settings.objective}{given}, which needs the embeddings of "
            "all processes in one place: use exchange=gather"
        )


def _check_predictor(settings: PretrainSettings) -> None:
    """Refuse an unknown predictor, and one that the framework needs or cannot use."""
    given, framework = settings.predictor, FRAMEWORKS.get(settings.framework)
    if given not in ("auto", NO_PREDICTOR):
        PREDICTORS[given]
    if given == "auto" or framework is None:
        return
    start = f"predictor={given}: framework {settings.framework}"
    if given != NO_PREDICTOR and not framework.has_predictor:
        raise UserError(f"{start} has no predictor, leave it out")
    if given == NO_PREDICTOR and framework.has_predictor:
        raise UserError(
            f"{start} compares predictions: use one of {', '.join(PREDICTORS)}, or leave the setting out"
        )


def _check_views(settings: PretrainSettings) -> None:
    if "size" in settings.view_options:
        raise UserError("view_options has no size: set image_size instead")
    PRESETS[_a_preset(settings)].with_options(**settings.view_options)


def _check_number_of_views(settings: PretrainSettings) -> None:
    """Require two views, because a view needs another one to compare with; one is enough with captions."""
    fewest = (FRAMEWORKS.get(settings.framework) or Framework).fewest_views
    if (
        str(settings.views).isdecimal() and int(settings.views) < fewest
    ):  # still a string if it could not be converted
        raise UserError(f"views must be greater than or equal to {fewest} (got {settings.views})")


def _check_probes(settings: PretrainSettings) -> None:
    """Refuse probes without diagnostics, which train them."""
    asked = [name for name in ("probe_every_epochs", "probe_every_steps") if getattr(settings, name)]
    if asked and settings.measure_every_epochs == 0:
        raise UserError(
            f"{asked[0]} has no effect with measure_every_epochs=0, which turns diagnostics off: leave one of them out"
        )


def _a_preset(settings: PretrainSettings) -> str:
    """The preset whose options are meant; any simple preset if it is not known yet."""
    return settings.preset if settings.preset in PRESETS else "cifar"


def _require_extra(package: str, requested: bool) -> None:
    if requested and find_spec(package) is None:
        raise MissingExtraError(f"the setting {package}", package)
