"""Everything that has a name, as tables."""

from typing import Any

from rich.table import Table

from cacr.data import SOURCES
from cacr.encoders import ENCODERS
from cacr.evaluation import PROTOCOLS
from cacr.losses import OBJECTIVES
from cacr.methods import FRAMEWORKS
from cacr.registry import Registry
from cacr.training.check import objective_option_names
from cacr.views import PRESETS


def listing() -> list[Table]:
    """One table for each kind of thing."""
    return [
        _objectives(),
        _table("frameworks (--framework)", FRAMEWORKS),
        _table("encoders (--encoder), and every name of timm", ENCODERS),
        _table("sources (DATA), and every folder of images", SOURCES),
        _presets(),
        _table("protocols (--protocol)", PROTOCOLS),
    ]


def _empty(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _table(title: str, registry: Registry[Any]) -> Table:
    table = _empty(title, "name", "what it is")
    for name, summary in registry.summaries().items():
        table.add_row(name, summary)
    return table


def _objectives() -> Table:
    table = _empty("objectives (--objective), with their settings (--set)", "name", "what it is", "settings")
    for name, summary in OBJECTIVES.summaries().items():
        table.add_row(name, summary, " ".join(objective_option_names(name)))
    return table


def _presets() -> Table:
    table = _empty("view presets (--preset), with their settings (--set)", "name", "what it is", "settings")
    for name, summary in PRESETS.summaries().items():
        table.add_row(
            name, summary, " | ".join(dict.fromkeys(view.describe() for view in PRESETS[name].views))
        )
    return table
