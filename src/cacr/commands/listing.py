"""``cacr list``: tables of everything that has a name."""

from collections.abc import Callable
from inspect import signature
from typing import Any

from rich.table import Table

from cacr.base_settings import Settings
from cacr.commands.bench import benchmark_summaries
from cacr.config import EvaluateSettings, PretrainSettings
from cacr.data import SOURCES
from cacr.encoders import ENCODERS, HEADS, PREDICTORS
from cacr.evaluation import (
    BASELINES,
    DETECTION_RECIPES,
    METRICS,
    PROTOCOLS,
    settings_of,
    transfer_sets,
)
from cacr.exporting import FORMATS
from cacr.frameworks import FRAMEWORKS
from cacr.losses import OBJECTIVES
from cacr.methods import METHODS
from cacr.registry import Registry, UnknownNameError, nearest
from cacr.reporting.figures import FIGURES
from cacr.sorting.select import WAYS
from cacr.training.settings.recipes import RECIPES
from cacr.views import PRESETS


def listing(kind: str | None = None) -> list[Table]:
    """A table for each kind of thing, or for one kind.

    Raises:
        UnknownNameError: there is no such kind.
    """
    if kind is None:
        return [make() for make in KINDS.values()]
    if kind not in KINDS:
        hint = nearest(kind, list(KINDS), otherwise=f"choose one of: {', '.join(KINDS)}")
        raise UnknownNameError(f"there is no list {kind!r}; {hint}")
    return [KINDS[kind]()]


def benchmarks_table() -> Table:
    """What each benchmark measures."""
    return _table("benchmarks (cacr bench NAME)", benchmark_summaries())


def _typed(default: Any) -> str:
    """A default as a user would type it after ``--set NAME=``."""
    if default is None:
        return "none"
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple | list):
        words = ",".join(map(str, default))
        return words if all(isinstance(each, str) for each in default) else f"[{words}]"
    return str(default)


def _empty(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, column in enumerate(columns):
        table.add_column(
            column, overflow="fold", no_wrap=number == 0
        )  # do not break names, so that they can be copied
    return table


def _table(title: str, things: Registry[Any] | dict[str, str]) -> Table:
    table = _empty(title, "name", "what it is")
    summaries = things if isinstance(things, dict) else things.summaries()
    for name, summary in summaries.items():
        table.add_row(name, summary)
    return table


def _methods() -> Table:
    table = _empty(
        "methods (--method): a framework, an objective and settings", "name", "what it is", "made of"
    )
    for name, summary in METHODS.summaries().items():
        method = METHODS[name]
        options = {**method.framework_options, **method.objective_options, **method.settings}
        made = [method.framework, method.objective, *(f"{n}={_typed(v)}" for n, v in options.items())]
        table.add_row(name, summary, " ".join(made))
    return table


def _objectives() -> Table:
    table = _empty(
        "objectives (--set objective=...), with their settings (--set)", "name", "what it is", "settings"
    )
    for name, summary in OBJECTIVES.summaries().items():
        options = signature(OBJECTIVES[name]).parameters
        table.add_row(name, summary, " ".join(f"{o}={_typed(options[o].default)}" for o in options))
    return table


def _frameworks() -> Table:
    table = _empty(
        "frameworks (--set framework=...), with their settings (--set)", "name", "what it is", "settings"
    )
    for name, summary in FRAMEWORKS.summaries().items():
        options = signature(FRAMEWORKS[name]).parameters
        names = FRAMEWORKS[name].option_names()
        table.add_row(name, summary, " ".join(f"{o}={_typed(options[o].default)}" for o in names))
    return table


def _presets() -> Table:
    table = _empty("view presets (--preset), with their settings (--set)", "name", "what it is", "settings")
    for name, summary in PRESETS.summaries().items():
        table.add_row(
            name, summary, " | ".join(dict.fromkeys(view.describe() for view in PRESETS[name].views))
        )
    return table


def _protocols() -> Table:
    table = _empty("protocols (--protocol), with their settings (--set)", "name", "what it is", "settings")
    for name, summary in PROTOCOLS.summaries().items():
        kind = settings_of(name)
        options = (f"{n}={_typed(f.default)}" for n, f in kind.named().items())
        table.add_row(name, summary, " ".join(options))
    return table


def _sets() -> Table:
    columns = ("folder", "set", "classes", "metric", "where to get it")
    table = _empty(
        "data sets of the ELEVATER benchmark (--data suite:PATH): each in PATH/FOLDER, with train/ and test/",
        *columns,
    )
    for each in transfer_sets():
        table.add_row(each.name, each.title, str(each.classes), each.metric, each.get)
    return table


def _settings(title: str, kind: type[Settings]) -> Table:
    table = _empty(title, "name", "default", "what it is")
    for name, field in kind.named().items():
        default = "" if field.is_required() else _typed(field.default)
        table.add_row(name, default, field.description or "")
    return table


KINDS: dict[str, Callable[[], Table]] = {
    "methods": _methods,
    "objectives": _objectives,
    "frameworks": _frameworks,
    "heads": lambda: _table("heads (--set head=...)", HEADS),
    "predictors": lambda: _table("predictors (--set predictor=...)", PREDICTORS),
    "recipes": lambda: _table("recipes (--recipe)", RECIPES),
    "encoders": lambda: _table("encoders (--encoder), and every name of timm", ENCODERS),
    "sources": lambda: _table("sources (DATA), and every folder of images", SOURCES),
    "presets": _presets,
    "protocols": _protocols,
    "detectors": lambda: _table(
        "recipes of detectors (--protocol detection --set recipe=NAME)", DETECTION_RECIPES
    ),
    "baselines": lambda: _table("baselines of cacr evaluate (--set baselines=[...])", BASELINES),
    "metrics": lambda: _table("metrics of cacr evaluate (--set metric=...)", METRICS),
    "sets": _sets,
    "selectors": lambda: _table("selectors of images (cacr select --by)", WAYS),
    "formats": lambda: _table("export formats (cacr export --to)", FORMATS),
    "settings": lambda: _settings("settings of cacr pretrain (flags, or --set name=value)", PretrainSettings),
    "evaluation": lambda: _settings(
        "settings of cacr evaluate (flags, or --set name=value)", EvaluateSettings
    ),
    "figures": lambda: _table("figures (cacr figures --only)", FIGURES.summaries()),
    "benchmarks": benchmarks_table,
}
"""Kinds that can be listed alone: ``cacr list KIND``."""
