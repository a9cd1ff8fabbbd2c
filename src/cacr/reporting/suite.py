"""The results of a suite of data sets, as a table."""

from rich.console import Group

from cacr.evaluation import SuiteReport
from cacr.files import printable
from cacr.reporting.results import score_table, with_lines
from cacr.runs.result import shown_notes


def suite_table(report: SuiteReport) -> Group:
    """Scores of every data set, means and wins, as in the paper's Table 6."""
    table = score_table("data", "protocol", "metric", subjects=report.contestants)
    for protocol in report.protocols:
        for name in report.sets:
            found = [report.results.get((name, protocol, c)) for c in report.contestants]
            metric = next((result.metric for result in found if result), "failed")
            texts = ("" if result is None else result.text for result in found)
            table.add_row(printable(name), protocol, metric, *texts)
        if sets := report.complete(protocol):
            means = (f"{100 * report.mean(protocol, c):.1f} %" for c in report.contestants)
            table.add_row(f"mean of {len(sets)}", protocol, "", *means, end_section=True)
    return with_lines(table, _lines(report))


def _lines(report: SuiteReport) -> list[str]:
    lines = [
        f"{protocol}, {report.contestants[0]} against {report.own_name(other)}: "
        f"{report.standing(protocol, other)}"
        for protocol in report.protocols
        for other in report.contestants[1:]
        if report.complete(protocol)
    ]
    lines += shown_notes(report.results.values())
    if report.failures:
        lines.append(f"{len(report.failures)} of {len(report.sets)} data sets failed:")
        lines += [f"  {failure}" for failure in report.failures]
    return lines
