"""What an evaluation found, as a table."""

from collections.abc import Iterable, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from cacr.files import printable
from cacr.runs.result import Result, shown_notes


def results_table(results: Sequence[Result]) -> Group:
    """Results as a table: a line for each protocol, number of labels and measure, a column for each subject.

    Under it stands what they were judged on, how many images are left out, and the notes on the data.
    """
    subjects = list(dict.fromkeys(result.subject for result in results))
    scores: dict[tuple[str, int | None, str], dict[str, str]] = {}
    for result in results:
        for measure, text in result.measures.items():
            line = scores.setdefault((result.protocol, result.labels_per_class, measure), {})
            line[result.subject] = text
    table = Table()
    for heading in ("protocol", "labels", "measure"):
        table.add_column(heading)
    for subject in subjects:
        table.add_column(subject, justify="right")
    for (protocol, labels, measure), texts in scores.items():
        used = "all" if labels is None else f"{labels} a class"
        table.add_row(protocol, used, measure, *(texts.get(subject, "") for subject in subjects))
    return with_lines(table, (_judged_on(results), *shown_notes(results)) if results else ())


def with_lines(table: Table, lines: Iterable[str]) -> Group:
    """A table, and under it lines of plain text: a folder called ``[bold]`` is a name."""
    return Group(table, *(Text(printable(line), style="dim") for line in lines))


def _judged_on(results: Sequence[Result]) -> str:
    left_out: dict[str, int] = {}
    for result in results:
        left_out[result.split] = max(left_out.get(result.split, 0), result.counts.get("unreadable", 0))
    judged = (
        f"{split} ({count:,} unreadable images left out)" if count else split
        for split, count in left_out.items()
    )
    return "judged on " + "; ".join(judged)
