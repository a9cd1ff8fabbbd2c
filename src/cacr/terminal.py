"""Print text without terminal control codes, and show progress bars."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.text import Text

from cacr.files import printable


class CleanConsole(Console):
    """A console that removes control codes from text: names from files cannot move the cursor or change colours.

    It does not interpret markup or highlight anything.
    """

    def __init__(self, *, stderr: bool = False, quiet: bool = False) -> None:
        super().__init__(stderr=stderr, quiet=quiet, highlight=False, markup=False)

    def on_broken_pipe(self) -> None:
        """When the reader of the output is gone (``| head``), go on with the work and print nothing more."""
        self.quiet = True
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())

    def render_str(self, text: str, **options: Any) -> Text:
        """Clean text before its width is measured, so that columns fit."""
        return super().render_str(_clean(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Clean each part of the output; keep rich's own control codes."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(_clean(segment.text), segment.style)


def _clean(text: str) -> str:
    return "\n".join(printable(line) for line in text.split("\n"))


@contextmanager
def bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar while the block runs; yields ``update(done, total)``. Shows nothing without a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = CleanConsole(stderr=True)
    with Progress(
        *columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task(label, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def working(label: str) -> Iterator[None]:
    """Show that the block is working, if its progress is unknown. Shows nothing without a terminal."""
    console = CleanConsole(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(label):
        yield
