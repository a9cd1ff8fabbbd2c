"""Printing for people: text as it is, but for what would steer the terminal; bars for what takes longer."""

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
    """A console on which names and texts from files cannot move the cursor, ring, or colour what follows.

    Nothing is read as markup, and nothing is highlighted.
    """

    def __init__(self, *, stderr: bool = False, quiet: bool = False) -> None:
        super().__init__(stderr=stderr, quiet=quiet, highlight=False, markup=False)

    def on_broken_pipe(self) -> None:
        """Whoever read the output has left (``| head``): the work goes on, and nothing more is printed."""
        self.quiet = True
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())

    def render_str(self, text: str, **options: Any) -> Text:
        """Text as it is shown: cleaned before it is measured, so that columns have room for it."""
        return super().render_str(_clean(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The parts of what is printed, each cleaned; rich's own control codes stay."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(_clean(segment.text), segment.style)


def _clean(text: str) -> str:
    return "\n".join(printable(line) for line in text.split("\n"))


@contextmanager
def bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar while the block runs; yields ``update(done, total)``. Nothing without a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = CleanConsole(stderr=True)
    with Progress(
        *columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task(label, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def working(label: str) -> Iterator[None]:
    """Show that the block is at work when how far it has come cannot be known. Nothing without a terminal."""
    console = CleanConsole(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(label):
        yield
