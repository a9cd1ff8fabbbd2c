"""Handle Ctrl-C in commands that train: say what is lost and how to continue; a second Ctrl-C ends at once."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from cacr.commands.options import show
from cacr.errors import INTERRUPTED

GRACE_SECONDS = 0.5
"""Seconds that a second Ctrl-C waits for the main thread, which may be computing, before the process ends."""


@contextmanager
def interruptible(out: Path, again: str) -> Iterator[None]:
    """On Ctrl-C outside the training loop, or a second Ctrl-C inside it: say what is lost, without a traceback.

    Args:
        out: the run folder.
        again: the command that continues a run.
    """
    from cacr.training.loop.signals import SignalWatch

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
    """End this process and its children, from another thread."""
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
    from cacr.training.building.checkpoints import list_checkpoints

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
        lost = "training had not started; run the same command again"
    return f"interrupted: {lost}"
