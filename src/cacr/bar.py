"""A progress bar for everything that takes longer than a few seconds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cacr.terminal import CleanConsole


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
