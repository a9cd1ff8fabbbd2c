"""What is known of a run without looking at an image: its settings, budget, results, verdict and curves."""

import contextlib
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from cacr.errors import UserError
from cacr.files import printable
from cacr.reporting.series import reference_of, series_of
from cacr.runs.result import Result
from cacr.runs.rows import Row
from cacr.runs.run import Run

RESULTS_HEADER = ("run", "protocol", "what", "labels", "measure", "score", "data", "judged on", "settings")
_TILES = 4


def run_facts(run: Run) -> dict[str, Any]:
    """Everything that the page shows of one run but its images.

    Raises:
        UserError: a file of it is damaged, or another version wrote it.
    """
    settings = run.settings
    return {
        "name": run.name,
        "title": printable(f"{settings.objective} on {_short_name(settings.data)}"),
        "tiles": [*_progress(run.rows), *_headline(run.results)],
        "verdict": _verdict(run),
        "budget": _budget(run),
        "settings": {field: _text(value) for field, value in settings.model_dump(mode="json").items()},
        "results": [row for result in run.results for row in _result_rows(run.name, result)],
        "series": series_of(run.rows),
        "reference": reference_of(run),
    }


def _verdict(run: Run) -> dict[str, Any] | None:
    """The verdict as the page shows it, or None where there is none."""
    found = run.verdict
    if found is None:
        return None
    return {
        "verdict": found.verdict,
        "evidence": found.evidence,
        "advice": found.advice,
        "epoch": found.epoch,
        "history": [{"epoch": past.epoch, "verdict": past.verdict} for past in found.history],
    }


def _progress(rows: list[Row]) -> Iterable[tuple[str, str]]:
    if not rows:
        yield "steps", "none yet"
        return
    last = rows[-1]
    yield "steps", f"{last['step']:,}"
    if "epoch" in last:
        yield "epochs", f"{last['epoch']:.4g}"
    losses = [row["loss"] for row in rows if "loss" in row]
    if losses:
        yield "last loss", f"{losses[-1]:.4f}"


def _headline(results: list[Result]) -> Iterable[tuple[str, str]]:
    """The encoder's own results: what a person looks for first."""
    own = [result for result in results if result.subject == "encoder"]
    for result in own[:_TILES]:
        yield printable(f"{result.protocol}, {_labels(result)}"), result.text


def _labels(result: Result) -> str:
    return "all labels" if result.labels_per_class is None else f"{result.labels_per_class} labels a class"


def _result_rows(run: str, result: Result) -> Iterable[list[str]]:
    """A row for each measure."""
    labels = "all" if result.labels_per_class is None else f"{result.labels_per_class} a class"
    where = [printable(result.data), printable(result.split)]
    settings = printable(_pairs({**result.settings, "seed": result.seed}))
    what = [printable(result.protocol), printable(result.subject)]
    for measure, text in result.measures.items():
        yield [run, *what, labels, printable(measure), text, *where, settings]


def _budget(run: Run) -> list[tuple[str, str]]:
    """What was spent, from the summary that the encoder carries and from what was logged."""
    lines: list[tuple[str, str]] = []
    if run.has_encoder:
        training = run.training
        known = (
            ("images", training.images),
            ("views of each image", training.views),
            ("batch size", training.batch_size),
            ("epochs planned", training.epochs),
            ("steps made", training.steps),
            ("finished", training.finished),
            ("processes", training.processes),
            ("precision", training.precision),
        )
        lines = [
            (label, f"{value:,}" if type(value) is int else _text(value))
            for label, value in known
            if value is not None
        ]
        with contextlib.suppress(UserError):  # an encoder that does not say how it was trained
            lines.append(("views seen", f"{run.budget.views_seen:,}"))
    speeds = [row["images_per_second"] for row in run.rows if "images_per_second" in row]
    if speeds:
        lines.append(("images per second, median", f"{median(speeds):,.0f}"))
    return lines


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return printable(_pairs(value))
    if isinstance(value, list):
        return printable(", ".join(map(str, value)))
    return "" if value is None else printable(str(value))


def _pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _short_name(data: str) -> str:
    """A folder by its own name: the whole path is among the settings."""
    return Path(data).name or data
