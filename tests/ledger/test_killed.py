"""A ledger whose runner is killed at random moments and started again is the ledger of one that nobody disturbed."""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cacr.ledger import Ledger, Orders, Plan, work, work_through
from cacr.ledger.cell import Cell
from tests.ledger.test_cells import TOY

pytestmark = [pytest.mark.trains, pytest.mark.slow]

ROOT = Path(__file__).parents[2]


def _work(folder: Path, seed: int = 0, kills: int = 0) -> int:
    """Work through the toy item, ended so many times; returns how often that came to pass."""
    script = ["-m", "tests.ledger.killing", str(folder), str(seed), str(kills)]
    done = subprocess.run([sys.executable, *script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return int(done.stdout.split()[-1])


def _content(folder: Path) -> dict[str, Any]:
    """Name -> what a record says, but for how long it took."""
    records = {file.name: json.loads(file.read_text()) for file in (folder / "cells").iterdir()}
    return {
        name: {key: value for key, value in record.items() if key != "seconds"}
        for name, record in records.items()
    }


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger that was filled in one go."""
    folder = tmp_path_factory.mktemp("undisturbed") / "ledger"
    _work(folder)
    return folder


@pytest.mark.parametrize("seed", [0, 1])
def test_killed_at_random_and_started_again_gives_the_same_ledger(
    undisturbed: Path, seed: int, tmp_path: Path
) -> None:
    ended = _work(tmp_path / "ledger", seed, kills=8)
    assert ended >= 3
    assert len(_content(undisturbed)) == 3  # two rows, and what was there before training
    assert _content(tmp_path / "ledger") == _content(undisturbed)


def test_without_run_folders_nothing_is_run_again(
    undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, told = Ledger(tmp_path / "ledger"), list[str]()
    shutil.copytree(undisturbed / "cells", ledger.cells)
    monkeypatch.setattr(work, "pretrain", lambda *_, **__: pytest.fail("a finished cell was run"))
    plan = Plan(TOY, "smoke", seeds=1)

    def never(cells: Sequence[Cell]) -> list[str]:
        pytest.fail(f"a process was started for {cells}")

    for jobs in (1, 2):
        orders = Orders(ledger, Path("data"), False, jobs, never, told.append)
        assert work_through(plan.sheet(ledger)[0].every(), orders)
    assert told == []
    assert "Incomplete" not in plan.text(plan.filled(ledger))
    assert _content(ledger.path) == _content(undisturbed)
