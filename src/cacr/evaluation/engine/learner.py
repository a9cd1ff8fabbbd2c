"""What the ELEVATER protocol trains: one interface of linear classifiers and whole networks."""

from collections.abc import Callable, Sequence
from typing import Protocol

from cacr.data.source import Indices
from cacr.evaluation.data.task import Task
from cacr.evaluation.engine.tuning import Setting


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


class LearnerKind(Protocol):
    """A class of learners."""

    side_by_side: bool

    def __call__(self, task: Task, used: Indices, after_epoch: Callable[[], None]) -> Learner:
        """A learner for the training images ``used``."""
