"""The page of a run: one HTML file that opens offline."""

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from cacr.evaluation import read_results
from cacr.files import write_atomically
from cacr.reporting.curves import curve_svg
from cacr.training import RunFolder

_CURVES = {
    "loss": ("loss", "attraction", "repulsion"),
    "learning rate": ("lr",),
    "images per second": ("images_per_second",),
    "share of time spent waiting for data": ("data_wait",),
}
"""Charts of the page: title -> the figures of ``metrics.jsonl`` that they draw."""


def write_report(path: Path) -> Path:
    """Write ``report.html`` into a run folder and return its place."""
    run = RunFolder(path)
    settings = run.read_settings()
    metrics = run.read_metrics()
    page = Template((files("cacr.reporting") / "page.html").read_text(encoding="utf-8")).substitute(
        title=escape(f"{settings.objective} on {settings.data}"),
        summary=escape(_summary(run, metrics)),
        results=_results(run),
        curves="".join(_curves(metrics)) or "<p>Nothing has been logged yet.</p>",
        settings=_table(("setting", "value"), settings.model_dump(mode="json").items()),
    )
    write_atomically(run.report, page.encode())
    return run.report


def _summary(run: RunFolder, metrics: list[dict[str, Any]]) -> str:
    if not metrics:
        return f"{run.path.name}: no step has been made yet"
    last = metrics[-1]
    figures = [f"{last['step']:,} steps"]
    figures += [f"{last['epoch']:g} epochs"] if "epoch" in last else []
    figures += [f"loss {last['loss']:.4f}"] if "loss" in last else []
    return f"{run.path.name}: {', '.join(figures)}"


def _curves(metrics: list[dict[str, Any]]) -> Iterable[str]:
    for title, names in _CURVES.items():
        lines = {
            name: [(row["epoch"], row[name]) for row in metrics if name in row and "epoch" in row]
            for name in names
            if any(name in row for row in metrics)
        }
        if lines:
            yield curve_svg(title, lines, from_zero=title != "loss")


def _results(run: RunFolder) -> str:
    results = read_results(run.evaluation)
    if not results:
        return "<p>No evaluation yet: run <code>cacr evaluate</code>.</p>"
    rows = (
        (
            result.protocol,
            result.subject,
            "all" if result.labels_per_class is None else f"{result.labels_per_class} a class",
            measure,
            text,
            result.data,
            result.split,
            ", ".join(f"{name}={value}" for name, value in {**result.settings, "seed": result.seed}.items()),
        )
        for result in results
        for measure, text in result.measures.items()
    )
    return _table(("protocol", "what", "labels", "measure", "score", "data", "judged on", "settings"), rows)


def _table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table of texts; whatever they contain, they are shown as text."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
