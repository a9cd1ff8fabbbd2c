"""The ELEVATER protocol: a few labels or all, settings searched on a part of them, then a final training."""

from collections.abc import Callable, Sequence
from statistics import mean, stdev
from typing import Any, Protocol

import numpy as np
import torch

from cacr.evaluation.data.shots import divide, draw_shots
from cacr.evaluation.data.splits import Indices
from cacr.evaluation.data.task import Task
from cacr.evaluation.engine.heads import train_probes
from cacr.evaluation.engine.tuning import Setting, choose
from cacr.evaluation.options import FewShotSettings, TransferSettings
from cacr.evaluation.registry import PROTOCOLS, Score
from cacr.evaluation.results.metrics import METRICS

SEARCH_AT_MOST = 10_000
"""Images of a class in the search; the final training has all."""

_ROUNDS = {"elevater": (5, 90), "quick": (1, 9)}
"""Trainings of a search: side by side, or one after the other."""


class Learner(Protocol):
    """What is trained on some training images, given by their numbers, with given settings.

    Attributes:
        side_by_side: Whether all settings that are asked for at once are trained at once.
    """

    side_by_side: bool

    def validate(
        self, settings: Sequence[Setting], train: Indices, judge: Indices, epochs: int, seed: int
    ) -> list[list[float]]:
        """The scores of each setting on ``judge``, after each epoch."""

    def final(self, setting: Setting, train: Indices, epochs: int, seed: int) -> list[float]:
        """The scores on the test images after the epochs that were judged, the last one last."""


class LinearLearner:
    """Linear classifiers on cached features.

    Args:
        task: The encoder and the data.
        used: The training images that will be asked for; only they are encoded.
        after_epoch: Called after every epoch of training.
    """

    side_by_side = True

    def __init__(self, task: Task, used: Indices, after_epoch: Callable[[], None]) -> None:
        self._task, self._after_epoch = task, after_epoch
        self._metric = METRICS[task.data.metric]
        self._train, read = task.encode(task.data.train.subset(used), task.data.train_labels[used])
        # Where an image of the source is among the features; one that could not be read is nowhere.
        self._place = np.full(len(task.data.train), -1)
        self._place[used[read.numpy()]] = np.arange(len(read))

    def validate(
        self, settings: Sequence[Setting], train: Indices, judge: Indices, epochs: int, seed: int
    ) -> list[list[float]]:
        """All settings are trained side by side."""
        places = self._places(judge)
        return self._curves(
            settings, train, self._train.values[places], self._train.labels[places], epochs, seed
        )

    def final(self, setting: Setting, train: Indices, epochs: int, seed: int) -> list[float]:
        """Judged after every epoch."""
        test = self._task.test
        return self._curves([setting], train, test.values, test.labels, epochs, seed)[0]

    def _curves(
        self,
        settings: Sequence[Setting],
        train: Indices,
        values: torch.Tensor,
        labels: torch.Tensor,
        epochs: int,
        seed: int,
    ) -> list[list[float]]:
        """The score of each setting after each epoch."""
        curves: list[list[float]] = [[] for _ in settings]

        def judge(scores: torch.Tensor) -> None:
            for number, curve in enumerate(curves):
                curve.append(self._metric(scores[:, number], labels))
            self._after_epoch()

        train_probes(
            self._train.values,
            self._train.labels,
            self._places(train),
            values,
            settings,
            classes=self._task.data.classes,
            epochs=epochs,
            seed=seed,
            after_epoch=judge,
        )
        return curves

    def _places(self, images: Indices) -> torch.Tensor:
        places = self._place[images]
        return torch.from_numpy(places[places >= 0])


class LearnerKind(Protocol):
    """A class of learners."""

    side_by_side: bool

    def __call__(self, task: Task, used: Indices, after_epoch: Callable[[], None]) -> Learner:
        """A learner for the training images ``used``."""


def register(suffix: str, what: str, learner: LearnerKind) -> None:
    """Register a learner's two protocols: with a few labels of each class, and with all.

    Args:
        suffix: Of the protocols' names.
        what: What is trained, for the lists of protocols.
        learner: Trains it.
    """

    def few(task: Task, settings: FewShotSettings) -> Score:
        return few_labels(task, settings, learner)

    def every(task: Task, settings: TransferSettings) -> Score:
        return all_labels(task, settings, learner)

    few.__doc__ = f"ELEVATER: {what}, five labels a class, three draws, settings searched for."
    every.__doc__ = f"ELEVATER: {what}, all training labels, settings searched for."
    PROTOCOLS.register(f"fewshot{suffix}")(few)
    PROTOCOLS.register(f"transfer{suffix}")(every)


def few_labels(task: Task, settings: FewShotSettings, learner: LearnerKind) -> Score:
    """Mean and standard deviation over draws with the seeds ``seed``, ``seed + 1`` and so on."""
    data = task.data
    count, names = settings.labels_per_class, data.train.class_names
    seeds = [task.seed + number for number in range(settings.draws)]
    draws = [draw_shots(data.train_labels, data.classes, count, seed, names) for seed in seeds]
    tick = _Ticker(task, settings, len(draws), learner.side_by_side)
    able = learner(task, np.unique(np.concatenate(draws)), tick)
    found = [_tune(task, settings, able, draw, draw, seed) for draw, seed in zip(draws, seeds, strict=True)]
    scores = [details["last"] for details in found]
    together = {name: [details[name] for details in found] for name in found[0]}
    spread = stdev(scores) if len(scores) > 1 else None
    return Score(mean(scores), spread, {"scores": scores, **together}, data.metric, notes=_notes(settings))


def all_labels(task: Task, settings: TransferSettings, learner: LearnerKind) -> Score:
    """One training with all labels."""
    images = np.arange(len(task.data.train))
    able = learner(task, images, _Ticker(task, settings, 1, learner.side_by_side))
    details = _tune(task, settings, able, images, _at_most(task, SEARCH_AT_MOST), task.seed)
    return Score(details["last"], None, details, task.data.metric, notes=_notes(settings))


def _tune(
    task: Task, settings: TransferSettings, learner: Learner, images: Indices, searched: Indices, seed: int
) -> dict[str, Any]:
    """Search for a setting on a part of the images, train with it on all of them, judge on the test images.

    Args:
        task: The encoder and the data.
        settings: Of the protocol.
        learner: What is trained.
        images: Training images, in the order in which they were drawn.
        searched: Those of them that are used in the search.
        seed: Of first weights and order.
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
    """All training images, or the first ``count`` of each class where there are more."""
    labels = task.data.train_labels
    if labels.ndim == 2:
        return np.arange(len(labels))
    order = np.argsort(labels, kind="stable")
    first = np.searchsorted(labels[order], labels[order])  # where each image's class begins
    return np.sort(order[np.arange(len(labels)) - first < count])


def _notes(settings: TransferSettings) -> tuple[str, ...]:
    if settings.search == "elevater":
        return ()
    what = {
        "quick": "nine settings were tried, not the protocol's 90 (search=quick)",
        "optuna": f"optuna tried {settings.trials} settings, not the protocol's search (search=optuna)",
    }
    return (what[settings.search],)


class _Ticker:
    """Counts epochs for a progress bar."""

    def __init__(self, task: Task, settings: TransferSettings, draws: int, side_by_side: bool) -> None:
        together, alone = _ROUNDS.get(settings.search, (settings.trials, settings.trials))
        rounds = together if side_by_side else alone
        self._total = draws * (rounds * settings.epochs + settings.final_epochs)
        self._done, self._progress = 0, task.progress

    def __call__(self) -> None:
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, max(self._done, self._total))


register("", "a linear classifier", LinearLearner)
