"""Everything that has a name, as tables."""

from typing import Any

from rich.table import Table

from cacr.commands.bench import benchmark_summaries
from cacr.config import EvaluateSettings, PretrainSettings, Settings
from cacr.data import SOURCES
from cacr.encoders import ENCODERS
from cacr.evaluation import BASELINES, PROTOCOLS, transfer_sets
from cacr.evaluation.registry import settings_of
from cacr.exporting import FORMATS
from cacr.frameworks import FRAMEWORKS
from cacr.losses import OBJECTIVES
from cacr.registry import Registry
from cacr.reporting.figures import FIGURES
from cacr.training.check import objective_option_names
from cacr.training.recipes import RECIPES
from cacr.views import PRESETS


def listing() -> list[Table]:
    """One table for each kind of thing."""
    return [
        _objectives(),
        _frameworks(),
        _table("recipes (--recipe)", RECIPES),
        _table("encoders (--encoder), and every name of timm", ENCODERS),
        _table("sources (DATA), and every folder of images", SOURCES),
        _presets(),
        _protocols(),
        _table("baselines of cacr evaluate (--set baselines=[...])", BASELINES),
        _sets(),
        _table("export formats (cacr export --to)", FORMATS),
        _settings("settings of cacr pretrain (flags, or --set name=value)", PretrainSettings),
        _settings("settings of cacr evaluate (flags, or --set name=value)", EvaluateSettings),
        _table("figures (cacr figures --only)", FIGURES.summaries()),
        benchmarks_table(),
    ]


def benchmarks_table() -> Table:
    """What each benchmark measures."""
    return _table("benchmarks (cacr bench NAME)", benchmark_summaries())


def _empty(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=number == 0)  # names stay whole, to be copied
    return table


def _table(title: str, things: Registry[Any] | dict[str, str]) -> Table:
    table = _empty(title, "name", "what it is")
    summaries = things if isinstance(things, dict) else things.summaries()
    for name, summary in summaries.items():
        table.add_row(name, summary)
    return table


def _objectives() -> Table:
    table = _empty("objectives (--objective), with their settings (--set)", "name", "what it is", "settings")
    for name, summary in OBJECTIVES.summaries().items():
        table.add_row(name, summary, " ".join(objective_option_names(name)))
    return table


def _frameworks() -> Table:
    table = _empty("frameworks (--framework), with their settings (--set)", "name", "what it is", "settings")
    for name, summary in FRAMEWORKS.summaries().items():
        table.add_row(name, summary, " ".join(FRAMEWORKS[name].option_names()))
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
        table.add_row(name, summary, " ".join(f"{n}={f.default}" for n, f in kind.model_fields.items()))
    return table


def _sets() -> Table:
    columns = ("folder", "set", "classes", "metric", "where to get it")
    table = _empty(
        "data sets of the ELEVATER benchmark (--data suite:PATH), laid out as docs/transfer.md says", *columns
    )
    for each in transfer_sets():
        table.add_row(each.name, each.title, str(each.classes), each.metric, each.get)
    return table


def _settings(title: str, kind: type[Settings]) -> Table:
    table = _empty(title, "name", "default", "what it is")
    for name, field in kind.model_fields.items():
        default = "" if field.is_required() else str(field.default)
        table.add_row(name, default, field.description or "")
    return table
