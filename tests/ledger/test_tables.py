"""What a table says about its numbers: units, machines, trials, settings, and the command that repeats it."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from cacr.ledger import ITEMS, Ledger, Plan, Record, record, reproduced
from cacr.ledger.cell import Cell
from cacr.ledger.scales import MINI, OURS, rows_at
from cacr.training.settings.recipes import RECIPES
from tests.conftest import Run
from tests.ledger.test_cells import TOY

BUDGET = {"images": 1000, "views": 5, "batch_size": 10, "steps": 40, "views_seen": 2000}


def _keep(ledger: Ledger, cell: Cell, **more: Any) -> None:
    scores = {"linear": {"encoder": 0.5, "untrained": 0.4, "pixels": 0.3}}
    ledger.keep(cell, Record(cell.content, scores, budget=BUDGET, **more))


def _text(plan: Plan, ledger: Ledger, **more: Any) -> str:
    return plan.text(plan.filled(ledger), **more)


def test_the_unit_of_an_item_decides_what_is_shown_and_not_its_words(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    plans = [Plan(replace(TOY, quantity="time", unit=unit), "mini", seeds=1) for unit in ("share", "seconds")]
    for cell in plans[0].sheet(ledger)[0].cells.values():
        _keep(ledger, cell, seconds={"step": 0.0123})
    share, seconds = (_text(plan, ledger) for plan in plans)
    assert "| ours | 50.00 (1) [86.5] |" in share
    assert "| ours | 0.0123 (1) [86.5] |" in seconds
    timed = {name for name in ITEMS if ITEMS[name].timed_steps}
    assert timed == {name for name in ITEMS if ITEMS[name].unit == "seconds"} == {"tableA7", "tableA10"}


def test_tables_of_time_name_the_machine(tmp_path: Path) -> None:
    ledger, plan = Ledger(tmp_path), Plan.of("tableA7", scale="mini", seeds=1)
    cells = plan.sheet(ledger)[0].cells
    for cell in cells.values():
        _keep(ledger, cell, seconds={"step": 0.01}, machine="a processor")
    assert "Measured on a processor." in _text(plan, ledger)
    ((row, column), _), last = list(cells.items())[-1]
    _keep(ledger, last, seconds={"step": 0.01}, machine="another one")
    text = _text(plan, ledger)
    assert "Measured on different machines, so that times cannot be compared: a processor (K=1," in text
    assert f"; another one ({row}, {column})." in text
    share = Plan(TOY, "mini", seeds=1)
    _keep(ledger, share.cells(ledger)[0], machine="a processor")
    assert "Measured on" not in _text(share, ledger)


def test_the_machine_of_a_record_has_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    processor = record.machine_name()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Tesla V100")
    assert record.machine_name() == f"{processor}, Tesla V100"


def test_a_table_says_how_many_trials_its_rows_had(tmp_path: Path) -> None:
    alike, unlike = (
        _text(Plan(item, "mini", tune=True), Ledger(tmp_path)) for item in (TOY, ITEMS["tableA4"])
    )
    assert "tuned on held-out training images (8 trials of every row)" in alike
    assert "(8 trials of CACR (K=4), without pi+; 4 trials of without pi-, without both (UAUR))" in unlike


def test_trials_of_a_row_differ_in_what_they_train(tmp_path: Path) -> None:
    """A value of t- that the objective does not use is no trial of its own."""
    for (row, _), tried in (
        Plan(ITEMS["tableA4"], "mini", tune=True).sheet(Ledger(tmp_path))[0].trials.items()
    ):
        for settings, cell in tried:
            assert ("t_neg" in settings) == (cell.settings.get("neg_weights") != "uniform"), row


def test_captions_name_the_settings_that_are_not_the_papers(tmp_path: Path) -> None:
    ours = "head=normed first_layer=whitened weights=kaiming schedule=cosine are ours, not the paper's"
    plain, tuned = (_text(Plan(TOY, "mini", tune=tune), Ledger(tmp_path)) for tune in (False, True))
    assert f"; base_lr=0.36 {ours}" in plain
    assert f"; {ours}" in tuned
    own = _text(Plan.of("tableA2", scale="mini"), Ledger(tmp_path))  # its rows have the paper's weights
    assert "; base_lr=0.36 head=normed first_layer=whitened schedule=cosine are ours" in own
    for item in map(ITEMS.__getitem__, ITEMS):
        for row in () if item.no_mini else rows_at(item, "mini"):
            if row.recipe is not None:
                recipe = RECIPES[row.recipe.format(data="cifar10", part="")].settings
                named = {name for name in OURS if name not in row.settings}
                assert all(recipe.get(name) != MINI[name] for name in named), (item.name, row.name)


def test_the_printed_command_has_the_folders_that_are_not_the_defaults(tmp_path: Path, run: Run) -> None:
    plan = Plan(TOY, "mini", seeds=2)
    assert _text(plan, Ledger(tmp_path)).endswith("    cacr reproduce toy --scale mini --seeds 2")
    out, data = tmp_path / "my ledger", tmp_path / "data"
    more = f"--out '{out}' --data-root {data}"
    found = reproduced(plan, Ledger(out), data)
    assert found.text.endswith(f"    cacr reproduce toy --scale mini --seeds 2 {more}")
    code, text = run("reproduce", "tableA3", "--table", "--tune", "--out", out, "--data-root", data)
    assert code == 0
    assert f"cacr reproduce tableA3 --scale mini --seeds 3 --tune {more}" in text


@pytest.mark.parametrize("name", ["figureA4", "table2"])
def test_every_record_is_read_once(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, plan = Ledger(tmp_path), Plan.of(name, scale="mini", seeds=2)
    cells = plan.cells(ledger)
    for cell in cells:
        _keep(ledger, cell)
    read = Counter[str]()
    original = record.read_json

    def counted(file: Path, *more: Any, **named: Any) -> Any:
        read[file.name] += 1
        return original(file, *more, **named)

    monkeypatch.setattr(record, "read_json", counted)
    reproduced(plan, ledger)
    assert read == Counter(ledger.file(cell).name for cell in cells)
