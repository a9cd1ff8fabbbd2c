"""Trials choose settings: all of them, or none."""

import json
from pathlib import Path
from typing import Any

import pytest

from cacr.errors import UserError
from cacr.features.encode import NotFiniteFeaturesError
from cacr.ledger import Ledger, Plan, Record, work
from cacr.ledger.cell import Cell
from cacr.ledger.item import RATES
from cacr.ledger.record import Failure
from cacr.runs.folder import RunFolder
from cacr.training.loop.diverged import DivergedError
from tests.ledger.test_cells import TOY

PLACE = ("ours", "regular")
LAST_RATE = 2 * RATES[-1]
"""``base_lr`` is for 256 images; this row has 128."""
PLAN = Plan(TOY, "mini", seeds=2, tune=True)


def _record(cell: Cell, score: float) -> Record:
    return Record(cell.content, {str(cell.evaluation["protocol"][0]): {"encoder": score}})


def _tried(ledger: Ledger, failure: Failure | None, count: int = 1) -> list[Cell]:
    """The trials of one place, of which the last are the best if they do not fail."""
    cells = [cell for _, cell in PLAN.sheet(ledger)[0].trials[PLACE]]
    for number, cell in enumerate(cells):
        if number < len(cells) - count:
            ledger.keep(cell, _record(cell, 0.1 * number))
        elif failure is not None:
            ledger.fail(cell, failure)
    return cells


@pytest.mark.parametrize("failure", [Failure("OSError: no space left on the disk"), None])
def test_a_trial_that_is_missing_or_failed_leaves_its_place_undecided(
    failure: Failure | None, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path)
    cells = _tried(ledger, failure)
    PLAN.decide(ledger)
    assert PLACE not in PLAN.sheet(ledger)[1] and not (tmp_path / "choices").exists()
    failed = " (1 failed; the next command tries them again)" if failure else ""
    said = f"Incomplete: ours, regular: 1 of 8 trials that choose settings are not finished{failed}."
    assert said in PLAN.text(PLAN.filled(ledger))
    assert cells[-1].digest in {cell.digest for cell in PLAN.cells(ledger)}
    ledger.keep(cells[-1], _record(cells[-1], 0.9))
    assert PLAN.sheet(ledger)[1][PLACE] == {"base_lr": LAST_RATE, "t_neg": 4.0}


def test_a_trial_that_diverged_was_tried_and_is_the_worst(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    cells = _tried(ledger, Failure("the loss is nan", "diverged"))
    PLAN.decide(ledger)
    assert PLAN.sheet(ledger)[1][PLACE] == {"base_lr": LAST_RATE, "t_neg": 1.0}
    (stored,) = (tmp_path / "choices").iterdir()
    scores = json.loads(stored.read_text())["scores"]
    assert len(scores) == len(cells) and scores[cells[-1].digest] == min(scores.values()) == 0


def test_if_every_trial_diverged_nothing_is_chosen(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    _tried(ledger, Failure("the loss is nan", "diverged"), count=8)
    PLAN.decide(ledger)
    assert PLACE not in PLAN.sheet(ledger)[1] and not (tmp_path / "choices").exists()
    assert "Incomplete: ours, regular: the training diverged in every trial" in PLAN.text(PLAN.filled(ledger))


def test_failures_of_earlier_versions_are_read_and_say_nothing_about_settings(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    cells = _tried(ledger, None)
    old = ledger.cells / f"{cells[-1].digest}.failed.txt"
    old.write_text("DivergedError: at step 3 the loss is nan\n")
    assert ledger.failure(cells[-1]) == Failure("DivergedError: at step 3 the loss is nan", "other")
    assert PLACE not in PLAN.sheet(ledger)[1]
    ledger.fail(cells[-1], Failure("the loss is nan", "diverged"))
    assert ledger.failure(cells[-1]) == Failure("the loss is nan", "diverged")
    ledger.keep(cells[-1], _record(cells[-1], 0.5))
    assert ledger.failure(cells[-1]) is None and not old.exists()


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (DivergedError(RunFolder(Path("run")), 3, "the loss is nan"), "diverged"),
        (NotFiniteFeaturesError("features are not finite"), "diverged"),
        (OSError("no space left on the disk"), "other"),
        (UserError("the loss of my neighbour diverged"), "other"),
    ],
)
def test_the_kind_of_a_failure_is_that_of_its_error(
    raised: Exception, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise raised

    monkeypatch.setattr(work, "pretrain", fail)
    ledger = Ledger(tmp_path)
    cell = PLAN.cells(ledger)[0]
    with pytest.raises(type(raised)):
        work.work_on(cell, ledger, Path("data"))
    failure = ledger.failure(cell)
    assert failure is not None and failure.kind == kind
    assert str(raised) in failure.why


def test_a_damaged_failure_is_named(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    cell = PLAN.cells(ledger)[0]
    ledger.fail(cell, Failure("no memory"))
    ledger.failure_file(cell).write_text('{"why": "no memory", "kind": "of blue"}')
    with pytest.raises(UserError, match=r"damaged.*kind"):
        ledger.failure(cell)
