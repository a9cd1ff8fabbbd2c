"""Show the progress of the training: a bar on a terminal, plain lines otherwise, nothing on other ranks."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TaskID, TextColumn

from cacr.durations import duration
from cacr.training.loop.pace import Pace

PLAIN_SECONDS = 30.0
"""Without a terminal, a line is printed at least this often, in seconds, if steps are not slower."""

BAR_SECONDS = 0.25
"""On a terminal, metrics are updated at most this often, in seconds: reading the loss makes the device wait."""

NARROW, WIDE = 80, 100
"""Columns of a terminal: below the first number there is no bar and no speed; from the second number on, the last
measurement is shown too."""

_LONGEST = len("epoch 200/200  100%  loss -0.1316  12,345 images/s  59 min 59 s left")


class TrainingProgress:
    """Shows epoch, loss, the last measurement, images per second and time left.

    Args:
        console: where to print.
        epochs: number of epochs of the whole run; the last one may be incomplete.
        total_steps: number of steps of the whole run.
        step: number of steps so far.
        epoch: number of epochs so far.
        enabled: whether anything is shown.
        clock: returns seconds.

    Attributes:
        pace: must be told of every step, and of time spent on something else.
    """

    def __init__(
        self,
        console: Console,
        *,
        epochs: int,
        total_steps: int,
        step: int,
        epoch: int,
        enabled: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console, self._enabled, self._clock = console, enabled, clock
        self._epochs, self._total = epochs, total_steps
        self.pace = Pace(clock)
        self._shown = -float("inf")
        self._seen = ""
        self._bar: Progress | None = None
        self._task = TaskID(0)
        if enabled and console.is_terminal:
            self._bar = Progress(*_columns(console.width, epochs), console=console)
            self._task = self._bar.add_task(
                "", total=total_steps, completed=step, epoch=epoch + 1, text="starting"
            )

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def begin(self, what: str) -> None:
        """Show what is done before the first step."""
        if self._bar:
            self._bar.update(self._task, text=what)
        elif self._enabled:
            self._console.print(f"{what} ...")

    def tell(self, text: str) -> None:
        """Print a line above the bar; can be called from any thread."""
        if self._enabled:
            self._console.print(text, soft_wrap=True)

    @property
    def due(self) -> bool:
        """Whether it is time for an update."""
        since = self._clock() - self._shown
        if self._bar:
            return since >= BAR_SECONDS
        return self._enabled and since + self.pace.seconds_per_step > PLAIN_SECONDS

    def update(self, *, step: int, epoch: int, loss: float, seen: str | None = None) -> None:
        """Show the state after ``step`` steps, in epoch ``epoch``.

        ``seen`` stays visible until the next measurement. Without a terminal, a line is printed only if it is
        :attr:`due`, and for the last step.
        """
        self._seen = self._seen if seen is None else f"  {seen}"
        if not self._enabled:
            return
        ended = step == self._total
        left = f"done in {duration(self.pace.spent)}" if ended else f"{duration(self._left(step))} left"
        speed = f"  {self.pace.images_per_second:,.0f} images/s"
        if self._bar:
            width = self._console.width
            more = (self._seen if width >= WIDE else "") + (speed if width >= NARROW else "")
            text = f"loss {loss:.4f}{more}  {left}"
            self._bar.update(self._task, completed=step, epoch=epoch, text=text)
        elif ended or self.due:
            where = f"epoch {epoch}/{self._epochs}  step {step}/{self._total}"
            self.tell(f"{where}  loss {loss:.4f}{self._seen}{speed}  {left}")
        else:
            return
        self._shown = self._clock()

    def _left(self, step: int) -> float:
        return self.pace.left(self._total - step)


def _columns(width: int, epochs: int) -> list[ProgressColumn]:
    """The columns of the bar, chosen so that the time left is never cut off."""
    room = width - _LONGEST - 2 - (25 if width >= WIDE else 0)
    return [
        TextColumn("epoch {task.fields[epoch]}/" + str(epochs)),
        *([BarColumn(max(5, min(40, room)))] if width >= NARROW else []),
        TextColumn("{task.percentage:3.0f}%  {task.fields[text]}"),
    ]
