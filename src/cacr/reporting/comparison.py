"""A comparison of runs as tables."""

from collections.abc import Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cacr.evaluation import Comparison, Line
from cacr.files import printable

_LEGEND = (
    "mean ± standard deviation over seeds, in %; difference with its 95 % interval; p: paired t-test (w: Welch's), "
    "corrected"
)


def comparison_tables(comparison: Comparison) -> list[RenderableType]:
    """Tables of scores with spread and test, and of the training budgets; they fit into 80 columns."""
    return [Text(_LEGEND, style="dim"), *_scores(comparison), _budgets(comparison)]


def _scores(comparison: Comparison) -> list[Table]:
    """One table per metric."""
    by_measure: dict[str, list[Line]] = {}
    for line in comparison.lines:
        by_measure.setdefault(line.measure, []).append(line)
    return [_of_measure(measure, lines) for measure, lines in by_measure.items()]


def _of_measure(measure: str, lines: Sequence[Line]) -> Table:
    table = Table(title=_text(measure), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("runs", overflow="fold", min_width=12)
    for heading in ("seeds", "score", "difference", "p"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", min_width=len("difference"))
    for line in lines:
        table.add_row(_text(line.group), str(len(line.scores)), score_text(line), *_difference(line))
    return table


def score_text(line: Line) -> str:
    """``71.9 ± 0.4``; ``71.9`` for one seed."""
    deviation = "" if line.deviation is None else f" ± {100 * line.deviation:.1f}"
    return f"{100 * line.mean:.1f}{deviation}"


def _difference(line: Line) -> tuple[str, str, str]:
    if line.difference is None or line.p is None:
        return "", "", line.verdict
    found = line.difference
    interval = f"{100 * found.mean:+.1f} ({100 * found.low:+.1f} to {100 * found.high:+.1f})"
    return interval, f"{line.p:.3f}" + (" w" if found.test == "Welch t" else ""), line.verdict


def _budgets(comparison: Comparison) -> Table:
    table = Table(
        title="training budget of the runs", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
    )
    table.add_column("runs", overflow="fold", min_width=12)
    table.add_column("seeds", justify="right", min_width=len("seeds"))
    for heading in ("images", "views each", "batch", "steps", "views seen"):
        table.add_column(heading, justify="right", no_wrap=True)
    for group in comparison.groups:
        budgets = list(dict.fromkeys(group.budgets.values()))
        for number, budget in enumerate(budgets):
            seeds = [seed for seed, other in group.budgets.items() if other == budget]
            cells = (budget.images, budget.views, budget.batch_size, budget.steps, budget.views_seen)
            table.add_row(
                _text(group.name if not number else ""),
                ", ".join(map(str, sorted(seeds))),
                *(f"{value:,}" for value in cells),
            )
    return table


def _text(text: str) -> Text:
    """Names as plain text, without markup."""
    return Text(printable(text))
