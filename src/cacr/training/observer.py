"""What may look at the model between two steps; the loop knows nothing else of diagnostics."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from rich.console import Console

from cacr.data import Source
from cacr.training.job import Training


class Seen(NamedTuple):
    """What an observer saw.

    Attributes:
        figures: to be logged.
        short: the few that fit into the progress bar, as text.
        stop: whether the run should end here; alike in all processes.
        best: whether this encoder is the one to keep so far; told to the first process.
    """

    figures: dict[str, float]
    short: str
    stop: bool
    best: bool = False


class Observer(Protocol):
    """Looks at the model without changing it, its random numbers or the order of the data.

    Every process has one, and all are called at the same steps, so that they may share the work.
    """

    def due(self, epoch: int) -> bool:
        """Whether to look after ``epoch`` epochs; it is always asked to look at the start and at the end."""

    def look(self, step: int, epoch: float, figures: Mapping[str, float]) -> Seen:
        """Look at the model after ``step`` steps.

        Args:
            step: optimiser steps made.
            epoch: epochs made.
            figures: those of the training since the last line of the log.
        """

    def diverged(self, step: int, epoch: float, what: str) -> None:
        """Learn that the run ends here, because a figure of it is not finite any more."""


Observe = Callable[[Training, Source, Console], Observer]
"""Makes the observer of a run from the run itself, the images to measure on, and where to print."""
