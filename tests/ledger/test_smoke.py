"""Every item from its cells to its table and figures, on digits."""

from pathlib import Path

import pytest

from cacr.ledger import ITEMS, Ledger, Plan
from tests.conftest import Run

pytestmark = [pytest.mark.trains, pytest.mark.slow]


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all items: cells that they share are run once."""
    return tmp_path_factory.mktemp("smoke") / "ledger"


@pytest.mark.parametrize("name", ITEMS.names())
def test_every_item_runs_at_the_scale_smoke(name: str, ledger: Path, run: Run) -> None:
    code, text = run("reproduce", name, "--scale", "smoke", "--seeds", 1, "--out", ledger)
    assert code == 0, text
    plan = Plan.of(name, scale="smoke", seeds=1)
    filled = plan.filled(Ledger(ledger))
    assert not filled.missing, filled.failed
    assert filled.scores or ITEMS[name].draws
    for claim in ITEMS[name].claims:
        assert claim.text in " ".join(text.split())
    if name.startswith("figure"):
        assert "figure:" in text
