"""The ELEVATER protocol with all training labels: a search for settings on a part of them, then a final training."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from cacr.data.source import Indices
from cacr.encoders import Encoder
from cacr.evaluation.data.benchmark_view import as_benchmark, size_refusal
from cacr.evaluation.data.shots import divide
from cacr.evaluation.data.task import Task
from cacr.evaluation.engine.draws import score_of_draws
from cacr.evaluation.engine.learner import Learner, LearnerKind
from cacr.evaluation.engine.linear_learner import LinearLearner
from cacr.evaluation.engine.tuning import Setting, choose
from cacr.evaluation.registry import PROTOCOLS, ProtocolSettings, Score

SEARCH_AT_MOST = 10_000
"""Images per class in the search; the final training uses all."""

_ROUNDS = {"elevater": (5, 90), "quick": (1, 9)}
"""Number of trainings of a search: side by side, or one after the other."""


class ElevaterSettings(ProtocolSettings):
    """The ELEVATER protocol: a search for settings, then a final training."""

    several_classes: ClassVar[bool] = True

    search: Literal["elevater", "quick", "optuna"] = Field(
        "elevater",
        description="elevater: the protocol's search of at most 90 settings; quick: nine; or optuna",
    )
    trials: int = Field(30, ge=1, le=100_000, description="number of settings that optuna tries")
    epochs: int = Field(
        10, ge=1, le=1_000_000, description="passes over the training part for each setting tried"
    )
    judge: Literal["last", "best"] = Field(
        "last", description="epoch whose score counts in the search: last, or best (as in the benchmark)"
    )
    final_epochs: int = Field(
        50, ge=1, le=1_000_000, description="passes over all labels with the best setting"
    )
    view: Literal["encoder", "elevater"] = Field(
        "encoder",
        description="encoder: as encoder.json says; elevater: as in the benchmark, 224 px, bicubic, no margin",
    )

    def refusal(self, encoder: Encoder) -> str | None:
        """Refuse ``view=elevater`` for an encoder that does not take images of the benchmark's size."""
        return size_refusal(encoder) if self.view == "elevater" else None


class TransferSettings(ElevaterSettings):
    """The ELEVATER protocol with all training labels."""

    repeats: int = Field(
        1,
        ge=1,
        le=1000,
        description="number of trainings, with seeds seed, seed + 1, ...; 3 in the benchmark",
    )


@PROTOCOLS.register("transfer")
def transfer(task: Task, settings: TransferSettings) -> Score:
    """ELEVATER: a linear classifier, all training labels, with a search for settings."""
    return all_labels(task, settings, LinearLearner)


def all_labels(task: Task, settings: TransferSettings, learner: LearnerKind) -> Score:
    """One training with all labels, or mean and standard deviation of several."""
    task = seen_by(task, settings)
    images = np.arange(len(task.data.train))
    able = learner(task, images, Ticker(task, settings, settings.repeats, learner.side_by_side))
    searched = _at_most(task, SEARCH_AT_MOST)
    found = [
        tune(task, settings, able, images, searched, task.seed + number) for number in range(settings.repeats)
    ]
    if len(found) == 1:
        return Score(found[0]["last"], None, found[0], task.data.metric, notes=notes_on(settings))
    return score_of_draws([(each["last"], each) for each in found], task.data.metric, notes_on(settings))


def seen_by(task: Task, settings: ElevaterSettings) -> Task:
    """The task with the chosen preprocessing of images."""
    return as_benchmark(task) if settings.view == "elevater" else task


def tune(
    task: Task, settings: ElevaterSettings, learner: Learner, images: Indices, searched: Indices, seed: int
) -> dict[str, Any]:
    """Search for a setting on a part of the images, train with it on all of them, test on the test images.

    Args:
        task: The encoder and the data.
        settings: Settings of the protocol.
        learner: What is trained.
        images: Training images, in the order in which they were drawn.
        searched: Those of them that are used in the search.
        seed: Seed of initial weights and order.
    """
    train, judge = divide(task.data.train_labels[searched], task.data.classes)

    def measure(tried: Sequence[Setting]) -> list[float]:
        curves = learner.validate(tried, searched[train], searched[judge], settings.epochs, seed)
        return [max(curve) if settings.judge == "best" else curve[-1] for curve in curves]

    choice = choose(settings.search, measure, trials=settings.trials, seed=seed)
    curve = learner.final(choice.best, images, settings.final_epochs, seed)
    return {
        "last": curve[-1],
        "best": max(curve),
        "lr": choice.best.lr,
        "weight_decay": choice.best.weight_decay,
        "validation": choice.score,
        "settings_tried": len(choice.tried),
    }


def _at_most(task: Task, count: int) -> Indices:
    """All training images, or the first ``count`` of each class if there are more."""
    labels = task.data.train_labels
    if labels.ndim == 2:
        return np.arange(len(labels))
    order = np.argsort(labels, kind="stable")
    first = np.searchsorted(labels[order], labels[order])  # index of the first image of the same class
    return np.sort(order[np.arange(len(labels)) - first < count])


def notes_on(settings: ElevaterSettings) -> tuple[str, ...]:
    """Notes on a search that is not the protocol's own."""
    if settings.search == "elevater":
        return ()
    what = {
        "quick": "nine settings were tried instead of the protocol's 90 (search=quick)",
        "optuna": f"optuna tried {settings.trials} settings instead of the protocol's search (search=optuna)",
    }
    return (what[settings.search],)


class Ticker:
    """Counts epochs for a progress bar."""

    def __init__(self, task: Task, settings: ElevaterSettings, draws: int, side_by_side: bool) -> None:
        together, alone = _ROUNDS.get(settings.search, (settings.trials, settings.trials))
        rounds = together if side_by_side else alone
        self._total = draws * (rounds * settings.epochs + settings.final_epochs)
        self._done, self._progress = 0, task.progress

    def __call__(self) -> None:
        """Call this after each epoch."""
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, max(self._done, self._total))
