"""Draw an item as a figure: curves and scores from the records, and figures of its runs if their folders exist."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cacr.errors import UserError
from cacr.ledger.item import Item
from cacr.ledger.record import Ledger, Record
from cacr.ledger.scales import Scale, columns_at
from cacr.ledger.table import Filled
from cacr.reporting.figures import draw_figures
from cacr.reporting.figures.style import label, legend, line_style, plain_axes, save

NAMES = {
    "entropy": "conditional entropy of negatives",
    "negative_distance": "mean distance of two images",
    "uniformity": "uniformity",
    "probe": "linear accuracy",
}
LIMITS = {"entropy": "max_entropy"}
"""Metric -> the metric with its largest possible value."""


@dataclass(frozen=True)
class Drawn:
    """The figures of an item.

    Attributes:
        files: what was drawn.
        missing: what was left out, why, and what to do: one line each.
    """

    files: list[Path]
    missing: list[str]


def draw(item: Item, scale: Scale, filled: Filled, ledger: Ledger) -> Drawn:
    """Draw the figures of an item.

    Curves and scores only need records. Figures from embeddings and pictures need the run folders.
    """
    folder, files = ledger.path / "figures", list[Path]()
    missing = _gone(item, filled, ledger)
    drawn = [name for name in item.curves if name in NAMES]
    if drawn and any(filled.records.values()):
        files += save(_curves(item, scale, filled, drawn), folder, f"{item.name}-{scale}")
    if item.varied and any(filled.records.values()):
        files += save(_against(item, scale, filled), folder, f"{item.name}-{scale}")
    for (column, seed), runs in _runs(filled, ledger).items() if item.draws else ():
        try:
            out = folder / f"{item.name}-{scale}" / f"{re.sub(r'[^a-z0-9]+', '-', column.lower())}-{seed}"
            for each in draw_figures([*runs.values()], out=out, only=item.draws, names=[*runs]):
                files += each.files
        except UserError as error:
            missing.append(f"{column}, seed {seed}: {error}")
    return Drawn(files, missing)


def _gone(item: Item, filled: Filled, ledger: Ledger) -> list[str]:
    """The finished cells whose run folders are gone, and what to do."""
    return [
        f"{row}, {column}, seed {seed}: its run folder is gone; copy {ledger.run(cell)} from where it was trained, or "
        f"remove {ledger.file(cell)} to train it again"
        for ((row, column), seed), cell in (filled.sheet.cells.items() if item.draws else ())
        if seed in filled.records.get((row, column), {}) and not ledger.run(cell).exists()
    ]


def _runs(filled: Filled, ledger: Ledger) -> dict[tuple[str, int], dict[str, Path]]:
    """(column, seed) -> row -> the run folder of a finished cell, if it still exists."""
    found: dict[tuple[str, int], dict[str, Path]] = {}
    for ((row, column), seed), cell in filled.sheet.cells.items():
        finished = seed in filled.records.get((row, column), {})
        if finished and (run := ledger.run(cell)).exists():
            found.setdefault((column, seed), {})[row] = run
    return found


def _curves(item: Item, scale: Scale, filled: Filled, drawn: list[str]) -> Figure:
    """One row of axes per metric, one column per column of the item; lines are means over seeds."""
    columns = [column.name for column in columns_at(item, scale)]
    figure = Figure(figsize=(4.5 * len(columns) + 2, 3 * len(drawn)), layout="constrained")
    grid = figure.subplots(len(drawn), len(columns), squeeze=False)
    for row, name in zip(grid, drawn, strict=True):
        for axes, column in zip(row, columns, strict=True):
            for number, system in enumerate(item.rows):
                records = filled.records.get((system.name, column), {})
                _line(axes, number, system.name, name, records)
            plain_axes(axes, x="epoch", y=NAMES[name])
            axes.set_title(label(column), fontsize=9)
    legend(grid[0, -1], of=grid[0])
    return figure


def _against(item: Item, scale: Scale, filled: Filled) -> Figure:
    """Scores against the setting that the rows vary, one line per system; one column per column of the item."""
    columns = [column.name for column in columns_at(item, scale)]
    figure = Figure(figsize=(4.5 * len(columns) + 2, 3.6), layout="constrained")
    grid = figure.subplots(1, len(columns), squeeze=False)[0]
    for axes, column in zip(grid, columns, strict=True):
        for number, line in enumerate(dict.fromkeys(row.line for row in item.rows)):
            scores = {
                row.at: [*found.values()]
                for row in item.rows
                if row.line == line and (found := filled.scores.get((row.name, column)))
            }
            _bars(axes, number, line, scores)
        plain_axes(axes, x=item.varied, y=item.quantity)
        axes.set_xticks(sorted({row.at for row in item.rows}))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_title(label(column), fontsize=9)
    legend(grid[-1], of=grid)
    return figure


def _bars(axes: Axes, number: int, line: str, scores: Mapping[float, list[float]]) -> None:
    """The mean over seeds with bars of one standard deviation (n - 1), at each value of the setting."""
    values = sorted(scores)
    means = [fmean(scores[value]) for value in values]
    spreads = [stdev(scores[value]) if len(scores[value]) > 1 else 0.0 for value in values]
    axes.errorbar(values, means, spreads, capsize=3, label=label(line), **line_style(number))


def _line(axes: Axes, number: int, system: str, name: str, records: Mapping[int, Record]) -> None:
    """The mean of a metric over seeds, at the epochs that all of them have, and its largest possible value."""
    curves = [_points(record, name) for record in records.values() if name in record.curves]
    if not curves:
        return
    epochs = sorted(set.intersection(*(set(curve) for curve in curves)))
    values = np.array([[curve[epoch] for epoch in epochs] for curve in curves])
    style = line_style(number)
    axes.plot(epochs, values.mean(axis=0), label=label(system), **style)
    if len(values) > 1:
        spread = values.std(axis=0, ddof=1)
        low, high = values.mean(axis=0) - spread, values.mean(axis=0) + spread
        axes.fill_between(epochs, low, high, color=style["color"], alpha=0.15, linewidth=0)
    limit = LIMITS.get(name)
    first = next(iter(records.values()))
    if limit in first.curves:
        axes.axhline(first.curves[limit][-1][1], color="black", linestyle=":", linewidth=1)


def _points(record: Record, name: str) -> dict[float, float]:
    """Epoch -> value."""
    return {point[0]: point[1] for point in record.curves[name]}
