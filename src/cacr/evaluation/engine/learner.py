"""What the ELEVATER protocol trains: one interface for linear classifiers and whole networks."""

from collections.abc import Callable, Sequence
from typing import Protocol

from cacr.data.source import Indices
from cacr.evaluation.data.task import Task
from cacr.evaluation.engine.tuning import Setting


class Learner(Protocol):
    """Trains with given settings on some training images, given by their numbers.

    Attributes:
        side_by_side: Whether settings that are asked for together are trained at the same time.
    """

    side_by_side: bool

    def validate(
        self, settings: Sequence[Setting], train: Indices, judge: Indices, epochs: int, seed: int
    ) -> list[list[float]]:
        """The scores of each setting on ``judge``, after each epoch."""

    def final(self, setting: Setting, train: Indices, epochs: int, seed: int) -> list[float]:
        """The scores on the test images after the tested epochs, the last one last."""


class LearnerKind(Protocol):
    """A kind of learner."""

    side_by_side: bool

    def __call__(self, task: Task, used: Indices, after_epoch: Callable[[], None]) -> Learner:
        """A learner for the training images ``used``."""
