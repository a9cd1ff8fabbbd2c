"""Cells of a benchmark: one small JSON file each, which several processes can work on together."""

import fcntl
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cacr.files import write_atomically


@contextmanager
def at_work(lock: Path, *, wait: bool = False) -> Iterator[bool]:
    """Whether no other process is in the same block; a process that dies leaves it, however it dies."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True


def once(file: Path, work: Path, make: Callable[[], dict[str, Any]]) -> None:
    """Make a cell and write its file, unless it is there or another process makes it.

    Args:
        file: the cell.
        work: a folder that the processes share, for the locks.
        make: computes the content of the file; if it raises, the cell is free again.
    """
    with at_work(work / "locks" / f"{file.stem}.lock") as free:
        if free and not file.exists():
            result = make()
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, (json.dumps(result, indent=1) + "\n").encode())
