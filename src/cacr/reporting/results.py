"""What an evaluation found, as a table."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from cacr.files import printable
from cacr.reporting.standings import Standing, subjects_of
from cacr.runs.result import Result, shown_notes


def results_table(results: Sequence[Result]) -> Group:
    """Results as a table: a line for each protocol, number of labels and measure, a column for each subject.

    Under it stands what they were judged on, how many images are left out, and the notes on the data.
    """
    subjects = subjects_of([Standing({result.subject: result}) for result in results])
    scores: dict[tuple[str, str, str], dict[str, str]] = {}
    for result in results:
        for measure, text in result.measures.items():
            used = "all" if result.labels_per_class is None else f"{result.labels_per_class} per class"
            line = scores.setdefault((result.protocol, used, measure), {})
            line[result.subject] = text
    table = score_table("protocol", "labels", "measure", subjects=subjects)
    for named, texts in scores.items():
        table.add_row(*named, *(texts.get(subject, "") for subject in subjects))
    return with_lines(table, (_judged_on(results), *shown_notes(results)) if results else ())


def score_table(*headings: str, subjects: Sequence[str]) -> Table:
    """A table with a column of scores for each subject, folded where the terminal is narrow, and never cut off."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold", min_width=6)
    for subject in subjects:
        table.add_column(printable(subject), justify="right", min_width=len("100.0 %"))
    return table


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
