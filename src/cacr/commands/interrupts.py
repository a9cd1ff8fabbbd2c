"""Ctrl-C in a command that trains: what is lost, what goes on from there; asked for twice, an end at once."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from cacr.commands.options import show

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""

GRACE_SECONDS = 0.5
"""How long a second Ctrl-C waits for the main thread, which may be in a long computation, before the process ends."""


@contextmanager
def interruptible(out: Path, again: str) -> Iterator[None]:
    """Ctrl-C outside of the training loop, or a second one inside: say what is lost, without a traceback.

    Args:
        out: the run folder.
        again: the command that continues a run.
    """
    from cacr.training.signals import SignalWatch

    ended = threading.Event()
    presses: list[int] = []

    def notice(number: int) -> None:
        if number == signal.SIGINT:
            presses.append(number)
            if len(presses) > 1 and not ended.wait(GRACE_SECONDS):
                _end_at_once(out, again)

    try:
        with SignalWatch(notice):
            try:
                yield
            finally:
                ended.set()
    except KeyboardInterrupt:
        show(_lost(out, again))
        raise typer.Exit(INTERRUPTED) from None


def _end_at_once(out: Path, again: str) -> None:
    """End this process from another thread, with those that it has started."""
    from cacr.terminal import CleanConsole

    console = CleanConsole()
    console.show_cursor(True)  # a progress bar hides it
    console.print(f"\n{_lost(out, again)}", soft_wrap=True)
    console.file.flush()
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(INTERRUPTED)


def _lost(out: Path, again: str) -> str:
    from cacr.runs.folder import RunFolder
    from cacr.training.checkpoints import list_checkpoints

    run = RunFolder(out)
    if kept := list_checkpoints(run.checkpoints):
        lost = (
            f"the checkpoint of step {kept[-1][0]} is kept, any later steps are lost; continue with: {again}"
        )
    elif run.config.exists():
        lost = (
            f"no checkpoint had been written yet, all steps are lost; start from the beginning with: {again}"
        )
    else:
        lost = "training had not begun; start it with the same command"
    return f"interrupted: {lost}"
