"""A comparison of runs as tables."""

from rich.table import Table
from rich.text import Text

from cacr.evaluation import Comparison, Line
from cacr.files import printable

_LABELS = 24  # characters that names keep where the terminal is narrow


def comparison_tables(comparison: Comparison) -> list[Table]:
    """What was measured, with spread and test, and what the runs have cost."""
    return [_scores(comparison), _budgets(comparison)]


def _scores(comparison: Comparison) -> Table:
    title = "mean ± standard deviation over seeds, in %; p: paired t-test (w: Welch's), corrected"
    table = Table(title=title, title_justify="left")
    table.add_column("measured, runs", overflow="fold", min_width=_LABELS)
    for heading in ("seeds", "score", "difference (95 % interval)", "p"):
        table.add_column(heading, justify="right")
    table.add_column("verdict")
    measure = ""
    for line in comparison.lines:
        if line.measure != measure:
            if measure:
                table.add_section()
            measure = line.measure
            table.add_row(_text(measure))
        group = _text(line.group)
        group.pad_left(2)
        table.add_row(group, str(len(line.scores)), score_text(line), *_difference(line))
    return table


def score_text(line: Line) -> str:
    """``71.9 ± 0.4``; of one seed ``71.9``."""
    deviation = "" if line.deviation is None else f" ± {100 * line.deviation:.1f}"
    return f"{100 * line.mean:.1f}{deviation}"


def _difference(line: Line) -> tuple[str, str, str]:
    if line.difference is None or line.p is None:
        return "", "", line.verdict
    found = line.difference
    interval = f"{100 * found.mean:+.1f} ({100 * found.low:+.1f} to {100 * found.high:+.1f})"
    return interval, f"{line.p:.3f}" + (" w" if found.test == "Welch t" else ""), line.verdict


def _budgets(comparison: Comparison) -> Table:
    table = Table(title="what the runs have seen", title_justify="left")
    table.add_column("runs", overflow="fold")
    for heading in ("seeds", "images", "views an image", "batch", "steps", "views seen"):
        table.add_column(heading, justify="right")
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
    """Names are text, whatever they contain."""
    return Text(printable(text))
