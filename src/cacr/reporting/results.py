"""The results of an evaluation, as a table."""

from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from cacr.files import printable
from cacr.reporting.standings import Standing, subjects_of
from cacr.runs.result import Result, shown_notes

_MOST_CLASSES = 20  # number of classes whose recall is printed
_MOST_ROWS = 100  # largest number of rows of a table of classes


def results_table(results: Sequence[Result]) -> Group:
    """Results as a table: one line per protocol, number of labels and metric, one column per subject.

    Below the table: the test images, the number of images left out, and notes on the data.
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
    notes = (*_recalls(results), *_ranks(results), *shown_notes(results))
    lines = (_judged_on(results), *notes) if results else ()
    return Group(with_lines(table, lines), *_class_tables(results, subjects))


def _class_tables(results: Sequence[Result], subjects: Sequence[str]) -> Iterator[Table]:
    """A table of the score per class, for each protocol that reports it."""
    for protocol in dict.fromkeys(result.protocol for result in results):
        measured = {r.subject: per_class(r) for r in results if r.protocol == protocol and per_class(r)}
        if not measured:
            continue
        metric = next(result.metric for result in results if result.protocol == protocol)
        present = [subject for subject in subjects if subject in measured]
        table = score_table(f"{metric} by class", subjects=present)
        names = list(dict.fromkeys(name for scores in measured.values() for name in scores))
        for name in names[:_MOST_ROWS]:
            texts = (f"{100 * measured[s][name]:.1f} %" if name in measured[s] else "" for s in present)
            table.add_row(printable(name), *texts)
        if len(names) > _MOST_ROWS:
            table.add_row(f"and {len(names) - _MOST_ROWS:,} others")
        yield table


def per_class(result: Result) -> dict[str, float]:
    """The score per class by name, if a protocol reports it; the content of result files is not trusted."""
    found = result.details.get("per_class")
    if not isinstance(found, dict):
        return {}
    return {str(name): float(v) for name, v in found.items() if isinstance(v, float | int)}


def score_table(*headings: str, subjects: Sequence[str]) -> Table:
    """A table with one column of scores per subject; cells are wrapped on narrow terminals, never cut off."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold", min_width=6)
    for subject in subjects:
        table.add_column(printable(subject), justify="right", min_width=len("100.0 %"))
    return table


def with_lines(table: Table, lines: Iterable[str]) -> Group:
    """A table, and lines of plain text below it: a folder called ``[bold]`` is just a name."""
    return Group(table, *(Text(printable(line), style="dim") for line in lines))


def _recalls(results: Sequence[Result]) -> Iterator[str]:
    """The recall of each class if classes are unbalanced, the lowest first."""
    for result in results:
        recall = result.details.get("recall")
        if result.subject != "encoder" or not isinstance(recall, dict):
            continue
        ranked = sorted(recall.items(), key=lambda item: item[1])
        shown = ", ".join(f"{name} {100 * share:.0f} %" for name, share in ranked[:_MOST_CLASSES])
        more = (
            f" and {len(ranked) - _MOST_CLASSES} classes with a higher recall"
            if len(ranked) > _MOST_CLASSES
            else ""
        )
        yield f"recall of each class ({result.protocol}): {shown}{more}"


def _ranks(results: Sequence[Result]) -> Iterator[str]:
    """The median rank of the first hit, in searches between images and captions."""
    for result in results:
        found = result.details.get("median_rank")
        if isinstance(found, dict) and all(isinstance(rank, float | int) for rank in found.values()):
            shown = ", ".join(f"{name} {rank:g}" for name, rank in found.items())
            yield f"median rank of the first hit ({result.subject}): {shown}"


def _judged_on(results: Sequence[Result]) -> str:
    left_out: dict[str, int] = {}
    for result in results:
        left_out[result.split] = max(left_out.get(result.split, 0), result.counts.get("unreadable", 0))
    judged = (
        f"{split} ({count:,} unreadable images left out)" if count else split
        for split, count in left_out.items()
    )
    return "tested on " + "; ".join(judged)
