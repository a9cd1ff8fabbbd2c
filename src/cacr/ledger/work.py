"""Train and measure one cell, and store its record."""

import fcntl
import shutil
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cacr.errors import UserError
from cacr.evaluation import SuiteReport, evaluate_run, evaluate_suite, is_suite
from cacr.evaluation.probing import observe
from cacr.features.encode import NotFiniteFeaturesError
from cacr.ledger.cell import Cell
from cacr.ledger.made_data import MADE, made
from cacr.ledger.record import Failure, Ledger, Record, current_commit
from cacr.runs.folder import RunFolder
from cacr.runs.run import Run
from cacr.training.loop.diverged import DivergedError
from cacr.training.pretrain import pretrain

CURVES = (
    "loss",
    "entropy",
    "max_entropy",
    "negative_distance",
    "positive_distance",
    "uniformity",
    "knn",
    "probe",
)
"""Metrics of a training that a record stores."""


_Scores = dict[str, dict[str, float]]
"""Protocol -> subject -> score."""

PLACES = {
    "imagenet": "imagenet:{}/imagenet",
    "imagenet100": "imagenet100:{}/imagenet",
    "imagenet22k": "imagenet22k:{}/imagenet22k",
    "webvision": "webvision:{}/webvision",
    "voc": "voc:{}/voc",
    "coco": "coco:{}/coco",
    "caltech101": "{}/transfer/caltech101",
    "cc3m": "wds:{}/cc3m/{{00000..00331}}.tar",
}
"""Data sets in the data root with their own names, as commands name them."""


class InterruptedCellError(UserError):
    """The training was stopped; its checkpoint exists."""


class TakenCellError(UserError):
    """Another process works on the cell."""


def work_on(cell: Cell, ledger: Ledger, data_root: Path, *, download: bool = False) -> Record:
    """Train, measure, and store the record; a cell with a record is not run again.

    An interrupted training continues from its last checkpoint, with the same result.

    Raises:
        InterruptedCellError: it was stopped.
        TakenCellError: another process works on it.
        UserError: it failed; the reason is also stored in the ledger.
    """
    with _lock(ledger.lock(cell)):
        if (known := ledger.find(cell)) is not None:
            return known
        try:
            record = _work(cell, ledger, {"data_root": data_root, "download": download})
        except InterruptedCellError:
            raise
        except Exception as error:
            diverged = isinstance(error, DivergedError | NotFiniteFeaturesError)
            why = f"{type(error).__name__}: {error}"
            ledger.fail(cell, Failure(why, "diverged" if diverged else "other"))
            raise
        ledger.keep(cell, record)
        return record


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Lock a file; the lock is released if the process ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise TakenCellError(f"another process works on {path.stem}") from None
        yield


def _work(cell: Cell, ledger: Ledger, where: dict[str, Any]) -> Record:
    started, folder, code = time.monotonic(), ledger.run(cell), current_commit()
    if folder.exists() and not RunFolder(folder).holds_run:
        shutil.rmtree(folder)  # it ended before its settings were written: there is nothing to continue
    values = dict(cell.settings) | where
    values["data"] = located(str(values["data"]), where["data_root"], ledger.made)
    outcome = pretrain(values, folder, resume=RunFolder(folder).holds_run, observe=observe)
    if outcome.status == "interrupted":
        raise InterruptedCellError(f"{cell.words} was stopped; run the same command to continue")
    trained = time.monotonic()
    scores, test_images = _scores(cell, ledger, where) if cell.evaluation else ({}, {})
    run = Run.open(folder)
    curves = {name: [[round(x, 4), round(y, 6)] for x, y in run.points(name)] for name in CURVES}
    speeds = [row["images_per_second"] for row in run.rows if row.get("images_per_second")]
    seconds = {"evaluation": time.monotonic() - trained}
    if outcome.status != "already finished":  # otherwise another cell has trained it
        seconds["training"] = trained - started
    if speeds:
        seconds["step"] = run.settings.batch_size / statistics.median(speeds)
    return Record(
        cell=cell.content,
        scores=scores,
        test_images=test_images,
        resolved=run.settings.model_dump(mode="json", exclude={"data_root"})
        | {"data": cell.settings["data"]},
        budget=asdict(run.budget),
        curves={name: points for name, points in curves.items() if points},
        verdict=run.verdict.verdict if run.verdict else "",
        seconds={name: round(value, 4) for name, value in seconds.items()},
        commit=code,
    )


def located(data: str, root: Path, own: Path) -> str:
    """The data as the commands take it.

    Args:
        data: name in a cell.
        root: folder of named data sets; those that are folders with their names; ImageNet-100 is in ImageNet's folder.
        own: folder of data sets that smoke runs create.
    """
    if data.startswith("suite:"):
        return f"suite:{root / data.removeprefix('suite:')}"
    if data in MADE:
        return made(data, own)
    return PLACES[data].format(root) if data in PLACES else data


def _scores(cell: Cell, ledger: Ledger, where: dict[str, Any]) -> tuple[_Scores, dict[str, int]]:
    """Scores, for a suite also their mean over its data sets, and numbers of test images by protocol."""
    of_start, folder = cell.subject == "start", ledger.run(cell)
    values = {"baselines": (), **cell.evaluation, **where}
    values["data"] = located(str(values["data"]), where["data_root"], ledger.made)
    subject = RunFolder(folder).start if of_start else folder
    if is_suite(str(values["data"])):
        return _suite_scores(evaluate_suite(subject, values), of_start)
    scores: _Scores = {}
    test_images: dict[str, int] = {}
    for result in evaluate_run(subject, values):
        name = "untrained" if of_start and result.subject == "encoder" else result.subject
        for measured, value in {"": result.score, **result.also}.items():
            title = f"{result.protocol} {measured}".strip()
            scores.setdefault(title, {})[name] = value
            test_images[title] = result.counts["test_images"]
    return scores, test_images


def _suite_scores(report: SuiteReport, of_start: bool) -> tuple[_Scores, dict[str, int]]:
    """Scores of every data set, and their mean; numbers of test images of every data set.

    Raises:
        UserError: a data set failed: a mean over the others would be a different number.
    """
    if report.failures:
        raise UserError("; ".join(map(str, report.failures)))
    scores: _Scores = {}
    test_images: dict[str, int] = {}
    for (data, protocol, contestant), result in report.results.items():
        name = "untrained" if of_start and contestant == report.contestants[0] else result.subject
        scores.setdefault(f"{protocol} {data}", {})[name] = result.score
        test_images[f"{protocol} {data}"] = result.counts["test_images"]
    for protocol in report.protocols:
        own = [scores[f"{protocol} {data}"] for data in report.sets]
        scores[protocol] = {name: statistics.fmean(each[name] for each in own) for name in own[0]}
    return scores, test_images
