"""Run a ledger again and again, ended at some of its accesses to files: `python killing.py FOLDER SEED KILLS`.

Everything is imported once. Each attempt is a child that ends itself as the n-th file or folder of the ledger is
opened, made, renamed or removed: at once, without cleaning up. The last attempt is left alone. Prints how many ended.
"""

import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cacr.ledger import Ledger, Orders, Plan, work_through
from tests.ledger.test_cells import TOY

EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"}


def work(folder: Path) -> None:
    """Work through a smoke run of the toy item."""
    ledger = Ledger(folder)
    orders = Orders(ledger, Path("data"), False, 1, lambda cells: [], print)
    work_through(Plan(TOY, "smoke", seeds=1).sheet(ledger)[0].every(), orders)


def count(folder: Path, act: Callable[[int], None]) -> None:
    """Call ``act`` with 1, 2, ... at the accesses to files of a folder."""
    seen = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event in EVENTS and str(folder) in str(arguments[0]):
            seen += 1
            act(seen)

    sys.addaudithook(hook)


def attempt(folder: Path, last: int | None) -> bool:
    """Work in a child that ends itself at an access to a file; returns whether it did."""
    child = os.fork()
    if child == 0:
        if last is not None:
            count(folder, lambda n: os.kill(os.getpid(), signal.SIGKILL) if n == last else None)
        work(folder)
        sys.stdout.flush()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


if __name__ == "__main__":
    place, draw = Path(sys.argv[1]), random.Random(int(sys.argv[2]))
    ended = sum(attempt(place, draw.randint(1, 90)) for _ in range(int(sys.argv[3])))
    attempt(place, None)
    print(f"ended {ended}")
