"""Run the cells of a ledger: one after the other, or several at a time in separate processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cacr.cores import available_cores
from cacr.durations import duration
from cacr.errors import INTERRUPTED
from cacr.ledger.cell import Cell
from cacr.ledger.record import Failure, Ledger
from cacr.ledger.work import InterruptedCellError, TakenCellError, work_on

POLL_SECONDS = 0.2
_LAST_LINES = 3


@dataclass(frozen=True)
class Orders:
    """How cells are run.

    Attributes:
        ledger: where records are stored.
        data_root: folder of named data sets.
        download: whether downloads are allowed.
        jobs: number of cells at the same time.
        command: the command that runs the cells of one training in a process.
        tell: is called with one line per finished cell.
    """

    ledger: Ledger
    data_root: Path
    download: bool
    jobs: int
    command: "Command"
    tell: Callable[[str], None]


def work_through(
    cells: Sequence[Cell], orders: Orders, progress: "Progress | None" = None, *, later: int = 0
) -> bool:
    """Run every cell that has no record; return whether it was not stopped.

    A failed cell is reported, and the next ones are run.

    Args:
        cells: the cells.
        orders: how they are run.
        progress: of earlier calls for the same item, which is continued.
        later: number of cells that another call will run.
    """
    waiting = [cell for cell in cells if orders.ledger.find(cell) is None]
    progress = progress or Progress(orders.tell)
    progress.expect(len(waiting) + later)
    run = _one_by_one if orders.jobs == 1 else _several
    return run(waiting, orders, progress)


class Progress:
    """Prints the number of finished cells and the estimated time left.

    Args:
        tell: is called with one line per finished cell.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._done, self._total, self._started = 0, 0, time.monotonic()

    def expect(self, more: int) -> None:
        """So many cells follow those that are done."""
        self._total = self._done + more

    def skipped(self, why: str) -> None:
        """A cell that is no longer waiting: another process works on it, or was told to stop."""
        self._total -= 1
        self._tell(why)

    def ended(self, cell: Cell, failed: Failure | None = None) -> None:
        """A cell that is done or failed."""
        self._done += 1
        spent = time.monotonic() - self._started
        left = duration(spent / self._done * (self._total - self._done))
        rest = f"about {left} left" if self._done < self._total else f"done in {duration(spent)}"
        outcome = f"failed: {failed.why}" if failed else "done"
        self._tell(f"{self._done} of {self._total} cells, {rest}; {cell.words}: {outcome}")


def _one_by_one(cells: Sequence[Cell], orders: Orders, progress: Progress) -> bool:
    for cell in cells:
        try:
            work_on(cell, orders.ledger, orders.data_root, download=orders.download)
        except InterruptedCellError as error:
            orders.tell(str(error))
            return False
        except TakenCellError as error:
            progress.skipped(f"{error}: skipped")
        except Exception:  # any error is stored in the ledger, as for a cell in another process
            progress.ended(cell, orders.ledger.failure(cell))
        else:
            progress.ended(cell)
    return True


def _several(cells: Sequence[Cell], orders: Orders, progress: Progress) -> bool:
    """Processes with an equal share of the cores; their output goes to a file next to their run folders."""
    threads = max(1, available_cores() // orders.jobs)
    environment = {"OMP_NUM_THREADS": str(threads)} | dict(os.environ)
    waiting, running = list(cells), dict[str, tuple[Cell, subprocess.Popen[bytes]]]()
    try:
        while waiting or running:
            while len(running) < orders.jobs and (cell := _next(waiting, running)) is not None:
                waiting.remove(cell)
                log = _log(orders.ledger, cell)
                log.parent.mkdir(parents=True, exist_ok=True)
                with log.open("wb") as output:
                    running[cell.digest] = (
                        cell,
                        subprocess.Popen(
                            orders.command([cell]), stdout=output, stderr=subprocess.STDOUT, env=environment
                        ),
                    )
            for digest, (cell, process) in list(running.items()):
                if process.poll() is not None:
                    del running[digest]
                    if why := _left(cell, process.returncode, orders.ledger):
                        progress.skipped(f"{cell.words}: {why}")
                    else:
                        progress.ended(cell, _failure(cell, process.returncode, orders.ledger))
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:  # the processes have received the signal too, and save their state
        for _, process in running.values():
            process.wait()
        orders.tell("stopped; run the same command to continue")
        return False
    return True


def _next(waiting: Sequence[Cell], running: Mapping[str, tuple[Cell, object]]) -> Cell | None:
    """The first cell whose training is not running."""
    busy = {cell.training for cell, _ in running.values()}
    return next((cell for cell in waiting if cell.training not in busy), None)


def _log(ledger: Ledger, cell: Cell) -> Path:
    return ledger.path / "runs" / f"{cell.digest}.log"


def _left(cell: Cell, code: int, ledger: Ledger) -> str:
    """Why a process left a cell for later, without fault of the cell; empty if it did not."""
    if ledger.find(cell) is not None:
        return ""
    if code == 0 and not ledger.failure(cell):
        return "another process works on it: skipped"
    if code in (INTERRUPTED, -signal.SIGINT, -signal.SIGTERM):
        return "stopped; run the same command to continue"
    return ""


def _failure(cell: Cell, code: int, ledger: Ledger) -> Failure | None:
    """Why a process left no record; None if it did."""
    if ledger.find(cell) is not None:
        return None
    if not ledger.failure(cell):
        lines = _log(ledger, cell).read_text(encoding="utf-8", errors="replace").strip().splitlines()
        ended = f"ended by signal {-code}" if code < 0 else f"ended with code {code}"
        ledger.fail(cell, Failure(" / ".join([ended, *lines[-_LAST_LINES:]])))
    return ledger.failure(cell)


Command = Callable[[Sequence[Cell]], list[str]]
"""Creates the command that runs some cells of one training in a process."""


def cell_command(item: str, options: Sequence[str]) -> Command:
    """The command that runs cells of an item, with the options of the whole command."""
    return lambda cells: [
        *(sys.executable, "-m", "cacr", "reproduce", item),
        *options,
        *("--cell", ",".join(cell.digest for cell in cells)),
    ]


def by_training(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Group cells of the same training: one process runs them one after the other."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.training, []).append(cell)
    return list(found.values())
