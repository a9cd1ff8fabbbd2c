"""Linear classifiers on cached features, trained as in the ELEVATER protocol."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from cacr.data.source import Indices
from cacr.evaluation.data.task import Task
from cacr.evaluation.engine.probes import train_probes
from cacr.evaluation.engine.tuning import Setting
from cacr.evaluation.results.metrics import METRICS


class LinearLearner:
    """Linear classifiers on cached features.

    Args:
        task: The encoder and the data.
        used: The training images that may be used; only they are encoded.
        after_epoch: Called after every epoch of training.
    """

    side_by_side = True

    def __init__(self, task: Task, used: Indices, after_epoch: Callable[[], None]) -> None:
        self._task, self._after_epoch = task, after_epoch
        self._metric = METRICS[task.data.metric]
        self._train, read = task.encode(task.data.train.subset(used), task.data.train_labels[used])
        # The position of each image among the features; unreadable images have none.
        self._place = np.full(len(task.data.train), -1)
        self._place[used[read.numpy()]] = np.arange(len(read))

    def validate(
        self, settings: Sequence[Setting], train: Indices, judge: Indices, epochs: int, seed: int
    ) -> list[list[float]]:
        """Trains all settings at the same time."""
        places = self._places(judge)
        return self._curves(
            settings, train, self._train.values[places], self._train.labels[places], epochs, seed
        )

    def final(self, setting: Setting, train: Indices, epochs: int, seed: int) -> list[float]:
        """Tested after every epoch."""
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
