"""The facts of a run that need no images: settings, budget, results, verdict and curves."""

import contextlib
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from cacr.errors import UserError
from cacr.evaluation.guest import Guest
from cacr.files import printable
from cacr.reporting.captions import caption_facts, reads_captions
from cacr.reporting.detections import detections_of
from cacr.reporting.headline import headline, headline_of
from cacr.reporting.next_step import guest_step, next_step
from cacr.reporting.series import reference_of, series_of
from cacr.reporting.standings import Standing, labels_text, standings, subjects_of
from cacr.runs.rows import Row
from cacr.runs.run import Run

_COMMON_NAMES = ("train", "training", "images", "data")


def run_facts(run: Run) -> dict[str, Any]:
    """Everything that the report shows of one run, except its images.

    Raises:
        UserError: one of its files is damaged, or was written by another version.
    """
    if isinstance(run, Guest):
        return _guest_facts(run)
    settings = run.settings
    return {
        "name": run.name,
        "title": printable(f"{settings.objective} on {_short_name(settings.data)}"),
        "headline": [printable(text) for text in headline(run)],
        "next": next_step(run)._asdict(),
        "tiles": [*_progress(run.rows)],
        "verdict": _verdict(run),
        "budget": _budget(run),
        "settings": {field: _text(value) for field, value in settings.model_dump(mode="json").items()},
        "results": _results(run),
        "detections": detections_of(run),
        "captions": caption_facts(run.results),
        "reads_captions": reads_captions(settings.framework),
        "series": series_of(run.rows),
        "reference": reference_of(run),
    }


def _guest_facts(guest: Guest) -> dict[str, Any]:
    """The same for an encoder that no run trained: what it is, where it comes from, and its results."""
    loaded = guest.encoder.loaded
    described = {name: value for name, value in asdict(guest.info).items() if name != "training"}
    found = headline_of(guest.current_results)
    return {
        "name": guest.name,
        "title": guest.name,
        "headline": [printable(text) for text in found or ("Nothing has been measured yet.", "")],
        "next": guest_step(guest)._asdict(),
        "tiles": [],
        "verdict": None,
        "budget": [] if loaded is None else [("weights", printable(loaded.text))],
        "settings": {field: _text(list(v) if isinstance(v, tuple) else v) for field, v in described.items()},
        "results": _results(guest),
        "detections": detections_of(guest),
        "captions": caption_facts(guest.results),
        "series": series_of([]),
        "reference": None,
    }


def _verdict(run: Run) -> dict[str, Any] | None:
    """The verdict for the report, or None."""
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


def _results(run: Run) -> dict[str, Any]:
    """One row per metric of each measurement, and the subjects that have a column."""
    found, digest = standings(run.results), run.digest
    return {
        "subjects": [printable(subject) for subject in subjects_of(found)],
        "rows": [row for standing in found for row in _result_rows(run.name, standing, digest)],
    }


def _result_rows(run: str, standing: Standing, digest: str) -> Iterable[dict[str, Any]]:
    one = standing.any
    earlier = "" if one.weights in ("", digest) else "an earlier encoder of this run"
    shared = {
        "run": run,
        "protocol": printable(one.protocol),
        "labels": labels_text(one),
        "about": [printable(text) for text in (standing.label, earlier) if text],
        "data": printable(one.data),
        "judged": printable(one.split),
        "settings": printable(_pairs({**one.settings, "seed": one.seed})),
    }
    for measure in dict.fromkeys(name for result in standing.of.values() for name in result.measures):
        scores = {
            printable(subject): result.measures[measure]
            for subject, result in standing.of.items()
            if measure in result.measures
        }
        yield shared | {"measure": printable(measure), "scores": scores}


def _budget(run: Run) -> list[tuple[str, str]]:
    """The training budget, from the description of the encoder and from the log."""
    lines: list[tuple[str, str]] = []
    if run.has_encoder:
        training = run.training
        known = (
            ("images", training.images),
            ("views per image", training.views),
            ("batch size", training.batch_size),
            ("epochs planned", training.epochs),
            ("steps done", training.steps),
            ("finished", training.finished),
            ("processes", training.processes),
            ("precision", training.precision),
        )
        lines = [
            (label, f"{value:,}" if type(value) is int else _text(value))
            for label, value in known
            if value is not None
        ]
        with contextlib.suppress(UserError):  # the encoder does not say how it was trained
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
    """A folder's own name, with that of its parent if the name is very common; the settings have the full path."""
    path = Path(data)
    return "/".join(path.parts[-2:]) if path.name in _COMMON_NAMES else path.name or data
