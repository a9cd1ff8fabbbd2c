"""What is known of a run without looking at an image: its settings, budget, results, verdict and curves."""

import contextlib
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from cacr.diagnostics.verdict_file import read_verdict
from cacr.encoders.files import read_info
from cacr.errors import UserError
from cacr.evaluation import Result, read_results
from cacr.files import printable
from cacr.reporting.series import read_reference, series_of
from cacr.runs.budget import budget_of
from cacr.runs.folder import RunFolder

RESULTS_HEADER = ("run", "protocol", "what", "labels", "measure", "score", "data", "judged on", "settings")
_TILES = 4


def run_facts(path: Path) -> dict[str, Any]:
    """Everything that the page shows of one run but its images.

    Raises:
        UserError: it is no run folder, or a newer version wrote it.
    """
    run = RunFolder(path)
    settings = run.read_settings()
    rows = run.read_metrics()
    results = read_results(run.evaluation)
    name = printable(path.resolve().name)
    return {
        "name": name,
        "title": printable(f"{settings.objective} on {_short_name(settings.data)}"),
        "tiles": [*_progress(rows), *_headline(results)],
        "verdict": verdict_of(run),
        "budget": _budget(path, rows, settings.accumulate),
        "settings": {field: _text(value) for field, value in settings.model_dump(mode="json").items()},
        "results": [row for result in results for row in _result_rows(name, result)],
        "series": series_of(rows),
        "reference": read_reference(path, settings.recipe),
    }


def verdict_of(run: RunFolder) -> dict[str, Any] | None:
    """The run's ``verdict.json`` as the page shows it, or None where there is none that can be read."""
    found = read_verdict(run)
    if found is None:
        return None
    try:
        return {
            "verdict": str(found["verdict"]),
            "evidence": [str(line) for line in found.get("evidence", [])],
            "advice": [str(line) for line in found.get("advice", [])],
            "epoch": found.get("epoch"),
            "history": [
                {"epoch": item.get("epoch"), "verdict": str(item["verdict"])}
                for item in found.get("history", [])
            ],
        }
    except (TypeError, KeyError, AttributeError):
        return None


def _progress(rows: list[dict[str, Any]]) -> Iterable[tuple[str, str]]:
    if not rows:
        yield "steps", "none yet"
        return
    last = rows[-1]
    yield "steps", f"{last['step']:,}"
    if isinstance(last.get("epoch"), int | float):
        yield "epochs", f"{last['epoch']:.4g}"
    loss = next((row["loss"] for row in reversed(rows) if isinstance(row.get("loss"), int | float)), None)
    if loss is not None:
        yield "last loss", f"{loss:.4f}"


def _headline(results: list[Result]) -> Iterable[tuple[str, str]]:
    """The encoder's own results: what a person looks for first."""
    own = [result for result in results if result.subject == "encoder"]
    for result in own[:_TILES]:
        yield f"{result.protocol}, {_labels(result)}", result.text


def _labels(result: Result) -> str:
    return "all labels" if result.labels_per_class is None else f"{result.labels_per_class} labels a class"


def _result_rows(run: str, result: Result) -> Iterable[list[str]]:
    """A row for each measure."""
    labels = "all" if result.labels_per_class is None else f"{result.labels_per_class} a class"
    where = [printable(result.data), printable(result.split)]
    settings = printable(_pairs({**result.settings, "seed": result.seed}))
    for measure, text in result.measures.items():
        yield [run, result.protocol, result.subject, labels, measure, text, *where, settings]


def _budget(path: Path, rows: list[dict[str, Any]], accumulate: int) -> list[tuple[str, str]]:
    """What was spent, from the summary that the encoder carries and from what was logged."""
    training: dict[str, Any] = {}
    info = path / "encoder.json"
    with contextlib.suppress(UserError):  # a run that has not saved an encoder yet
        training = read_info(info).training
    lines = [
        (label, f"{training[key]:,}" if type(training[key]) is int else _text(training[key]))
        for label, key in (
            ("images", "images"),
            ("views of each image", "views"),
            ("batch size", "batch_size"),
            ("epochs planned", "epochs"),
            ("steps made", "steps"),
            ("finished", "finished"),
            ("processes", "processes"),
            ("precision", "precision"),
        )
        if key in training
    ]
    with contextlib.suppress(UserError):  # an encoder that does not say how it was trained
        lines.append(("views seen", f"{budget_of(training, accumulate, info).views_seen:,}"))
    speeds = [
        row["images_per_second"] for row in rows if isinstance(row.get("images_per_second"), int | float)
    ]
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
