"""What is run by a tuned item, in which order: progress over all cells, and choices before cells."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cacr.ledger import ITEMS, Ledger, Orders, Plan, Record, runner, work_on_plan
from cacr.ledger.cell import Cell
from cacr.ledger.record import Failure
from tests.conftest import Run, refused

PLAN = Plan.of(
    "table2", scale="mini", seeds=2, tune=True, rows=("CL (SimCLR)", "HN-CL"), columns=("CIFAR-10",)
)
TRIALS = sum(
    len(tried)
    for place, tried in PLAN.sheet(Ledger(Path("none")))[0].trials.items()
    if place[0] in PLAN.rows and place[1] in PLAN.columns
)


def _record(cell: Cell, score: float = 0.5) -> Record:
    names = ("untrained", "pixels") if cell.subject == "start" else ("encoder",)
    budget = {"images": 1000, "views": 5, "batch_size": 10, "steps": 40, "views_seen": 2000}
    return Record(cell.content, {"linear": dict.fromkeys(names, score)}, budget=budget)


def _work(monkeypatch: pytest.MonkeyPatch, fails: Callable[[Cell], bool] = lambda cell: False) -> list[Cell]:
    """Cells are done without a training; returns those that are run from now on."""
    ran: list[Cell] = []

    def work_on(cell: Cell, ledger: Ledger, *_: Any, **__: Any) -> None:
        ran.append(cell)
        if fails(cell):
            ledger.fail(cell, Failure("no memory"))
            raise MemoryError
        ledger.keep(cell, _record(cell))

    monkeypatch.setattr(runner, "work_on", work_on)
    return ran


def _orders(ledger: Ledger, told: list[str]) -> Orders:
    return Orders(ledger, Path("data"), False, 1, lambda cells: [], told.append)


def test_progress_counts_the_cells_that_trials_have_to_decide_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = list[str]()
    _work(monkeypatch)
    assert work_on_plan(PLAN, _orders(Ledger(tmp_path), told)).finished
    total = TRIALS + 2 * (2 + 1)  # two seeds of two rows, and of what was before training
    assert [line.split(" cells, ")[0] for line in told] == [f"{n + 1} of {total}" for n in range(total)]
    assert all(("done in" in line) == (line == told[-1]) for line in told)


def test_a_failed_trial_is_run_once_by_a_command_and_again_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, ledger = list[str](), Ledger(tmp_path)
    trial = next(cell for cell in PLAN.cells(ledger) if cell.evaluation.get("held_out"))
    ran = _work(monkeypatch, lambda cell: cell == trial)
    work_on_plan(PLAN, _orders(ledger, told))
    assert ran.count(trial) == 1
    # the row whose trial failed waits; the other one, and what was before training, does not
    assert len(ran) == TRIALS + 2 * (1 + 1)
    assert f"{len(ran)} of {len(ran)} cells, done in" in told[-1]
    again = _work(monkeypatch)
    work_on_plan(PLAN, _orders(ledger, told))
    assert len(again) == 1 + 2 and again[0] == trial


def _finished_trials(ledger: Ledger) -> Plan:
    plan = Plan(ITEMS["tableA3"], "mini", seeds=1, tune=True)
    for tried in plan.sheet(ledger)[0].trials.values():
        for number, (_, cell) in enumerate(tried):
            ledger.keep(cell, _record(cell, 0.1 * number))
    return plan


@pytest.mark.parametrize("way", ["print", "cell"])
def test_on_a_cluster_choices_are_stored_before_cells_are_run(way: str, run: Run, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    plan = _finished_trials(ledger)
    chosen = plan.sheet(ledger)[1]
    command = ["reproduce", "tableA3", "--tune", "--seeds", 1, "--out", tmp_path]
    if way == "print":
        assert run(*command, "--print-cells")[0] == 0
    else:
        refused(run, [*command, "--cell", "123"], "no cell 123")
    assert len(list((tmp_path / "choices").iterdir())) == len(chosen) == 4
    for tried in plan.sheet(ledger)[0].trials.values():
        ledger.keep(tried[0][1], _record(tried[0][1], 1.0))  # the worst is the best when it is run again
    assert plan.sheet(ledger)[1] == chosen


def test_a_command_that_is_stopped_has_stored_the_choices_of_its_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(tmp_path)
    plan = _finished_trials(ledger)

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "work_on", stop)
    with pytest.raises(KeyboardInterrupt):
        work_on_plan(plan, _orders(ledger, []))
    assert len(list((tmp_path / "choices").iterdir())) == 4
