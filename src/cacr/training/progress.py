"""Progress of the training: a bar on a terminal, plain lines elsewhere, nothing on other ranks."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

PLAIN_SECONDS = 30.0
"""Without a terminal, a line is printed at the end of each epoch, but not more often than this."""

WIDE = 100
"""Columns of a terminal that has room for the time elapsed too; elsewhere the time left says more."""


def duration(seconds: float) -> str:
    """A time that a person reads at a glance: ``42 s``, ``3 min 10 s``, ``5 h 12 min``, ``3 days 4 h``."""
    seconds = round(seconds)
    for name, size, sub, sub_size in (
        ("days", 86400, "h", 3600),
        ("h", 3600, "min", 60),
        ("min", 60, "s", 1),
    ):
        if seconds >= size:
            rest = seconds % size // sub_size
            return f"{seconds // size} {name} {rest} {sub}" if rest else f"{seconds // size} {name}"
    return f"{seconds} s"


class TrainingProgress:
    """Shows epoch, loss, what the diagnostics saw last, images per second and time left."""

    def __init__(self, console: Console, *, epochs: int, total_steps: int, step: int, enabled: bool) -> None:
        self._console = console
        self._epochs, self._total, self._first = epochs, total_steps, step
        self._enabled = enabled
        self._started = self._last_line = time.monotonic()
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._seen = ""
        if enabled and console.is_terminal:
            self._bar = Progress(
                TextColumn("epoch {task.fields[epoch]}/" + str(epochs)),
                BarColumn(),
                TextColumn(
                    "{task.percentage:3.0f}%  loss {task.fields[loss]}{task.fields[seen]}  {task.fields[rate]} images/s"
                ),
                *([TimeElapsedColumn()] if console.width >= WIDE else []),
                TextColumn("{task.fields[left]} left"),
                console=console,
            )
            self._task = self._bar.add_task(
                "", total=total_steps, completed=step, epoch=0, loss="-", seen="", rate="-", left="?"
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

    def update(
        self,
        *,
        step: int,
        epoch: int,
        loss: float,
        images_per_second: float,
        epoch_ended: bool,
        seen: str | None = None,
    ) -> None:
        """Show the state after ``step`` optimiser steps; what was ``seen`` stays until something else is."""
        if not self._enabled:
            return
        self._seen = self._seen if seen is None else f"  {seen}"
        now = time.monotonic()
        left = duration((now - self._started) / max(1, step - self._first) * (self._total - step))
        if self._bar:
            self._bar.update(
                self._task,
                completed=step,
                epoch=epoch,
                loss=f"{loss:.4f}",
                seen=self._seen,
                rate=f"{images_per_second:,.0f}",
                left=left,
            )
        elif step == self._total or (epoch_ended and now - self._last_line >= PLAIN_SECONDS):
            self._last_line = now
            self._console.print(
                f"epoch {epoch}/{self._epochs}  step {step}/{self._total}  loss {loss:.4f}{self._seen}  "
                f"{images_per_second:,.0f} images/s  {left} left"
            )
