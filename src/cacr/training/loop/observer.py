"""Interface for measuring the model between two steps; the training loop knows nothing else of diagnostics."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from rich.console import Console

from cacr.data import Source
from cacr.training.building.job import Position, Training


class Seen(NamedTuple):
    """Result of a measurement.

    Attributes:
        figures: metrics to log.
        short: a few metrics for the progress bar, as text.
        stop: whether to end the run here; the same in all processes.
        best: whether this encoder is the best so far; known only to the first process.
    """

    figures: dict[str, float]
    short: str
    stop: bool
    best: bool = False


class Observer(Protocol):
    """Measures the model without changing it, its random numbers or the order of the data.

    Every process has an observer. All are called at the same steps, so that they can share the work.
    """

    def due(self, position: Position) -> bool:
        """Whether to measure after this step; the start and the end are always measured."""

    def look(self, step: int, epoch: float, figures: Mapping[str, float]) -> Seen:
        """Measure the model after ``step`` steps.

        Args:
            step: number of optimiser steps so far.
            epoch: number of epochs so far.
            figures: training metrics since the last line of the log.
        """

    def diverged(self, step: int, epoch: float, what: str) -> None:
        """Called if the run ends here, because one of its numbers is no longer finite."""


Observe = Callable[[Training, Source, Console], Observer]
"""Creates the observer of a run, from the run itself, the images to measure on, and the console."""
