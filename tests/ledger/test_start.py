"""What was there before training is what the trainings of the table start from."""

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file

from cacr.ledger import ITEMS, Ledger, Plan, work
from cacr.ledger.scales import sheet_of
from cacr.runs.folder import RunFolder

COMMITTED = Path(__file__).parents[2] / "benchmarks/results/ledger/cells"


def test_committed_references_keep_their_names() -> None:
    sheet = sheet_of(ITEMS["table2"], "mini", range(6))
    expected = {cell.digest for (column, _), cell in sheet.references.items() if column != "CIFAR-10, linear"}
    records = {file.stem: json.loads(file.read_text())["cell"] for file in COMMITTED.glob("*.json")}
    assert expected <= {name for name, cell in records.items() if cell["subject"] == "start"}


@pytest.mark.trains
def test_the_start_of_a_row_is_the_reference_bit_for_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "evaluate_run", lambda *_: [])
    ledger, item = Ledger(tmp_path), ITEMS["table2"]
    sheet, _ = Plan(item, "smoke", seeds=1).sheet(ledger)
    ((column, _),) = sheet.references
    reference = sheet.references[column, 0]
    row = sheet.cells[("CACR (K=4)", column), 0]
    starts = []
    for cell in (reference, row):
        work.work_on(cell, ledger, Path("data"))
        starts.append(load_file(RunFolder(ledger.run(cell)).start / "encoder.safetensors"))
    assert starts[0].keys() == starts[1].keys()
    for name, value in starts[0].items():
        assert value.equal(starts[1][name]), name
