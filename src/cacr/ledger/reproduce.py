"""Reproduce an item of the paper, from its first cell to its table and figures."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cacr.errors import UserError
from cacr.ledger.claims import Judged
from cacr.ledger.plan import DATA_ROOT, Plan
from cacr.ledger.record import Ledger
from cacr.ledger.runner import Orders, Progress, cell_command, work_through


@dataclass(frozen=True)
class Reproduced:
    """The results of an item.

    Attributes:
        finished: whether it was not stopped; a failed cell does not stop the others.
        text: the table with its claims, in Markdown.
        claims: each with its verdict.
        figures: files that were drawn.
        undrawn: what is missing from the figures, and what to do: one line each.
    """

    finished: bool
    text: str
    claims: list[Judged]
    figures: list[Path]
    undrawn: list[str]


def orders_of(
    plan: Plan, out: Path, data_root: Path, *, download: bool, jobs: int, tell: Callable[[str], None]
) -> Orders:
    """How the cells of a plan are run.

    Raises:
        UserError: cells that measure time would disturb each other.
    """
    if jobs > 1 and plan.item.timed_steps:
        raise UserError(f"{plan.item.name} measures time, one cell after the other: leave out --jobs")
    command = cell_command(plan.item.name, plan.options(out, data_root, download=download))
    return Orders(Ledger(out), data_root, download, jobs, command, tell)


def work_on_plan(plan: Plan, orders: Orders) -> Reproduced:
    """Run the cells that have no record, then make the table of all records."""
    ledger, progress = orders.ledger, Progress(orders.tell)
    plan.decide(ledger)
    first = plan.cells(ledger)
    finished = work_through(first, orders, progress, later=plan.unknown_cells(ledger))
    if plan.tune and finished:  # the trials have decided the settings of the other cells
        plan.decide(ledger)
        failed = {cell.digest for cell in first if ledger.failure(cell)}  # left to the next command
        rest = [cell for cell in plan.cells(ledger) if cell.digest not in failed]
        finished = work_through(rest, orders, progress)
    return reproduced(plan, ledger, orders.data_root, finished=finished)


def reproduced(
    plan: Plan, ledger: Ledger, data_root: Path = DATA_ROOT, *, finished: bool = True
) -> Reproduced:
    """The table and figures of the existing records; nothing is run."""
    filled = plan.filled(ledger)
    text, drawn = plan.text(filled, ledger.path, data_root), plan.draw(filled, ledger)
    return Reproduced(finished, text, filled.judged, drawn.files, drawn.missing)
