"""The figures of a ledger: what their cells measure, and what is drawn from records alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from cacr.errors import UserError
from cacr.ledger import ITEMS, Ledger, Plan, Record, drawing, reproduced
from cacr.ledger.cell import Cell
from cacr.ledger.scales import Match, sheet_of
from tests.conftest import Run


def _record(cell: Cell, score: float) -> Record:
    budget = {"images": 1000, "views": 5, "batch_size": 10, "steps": 40, "views_seen": 2000}
    return Record(cell.content, {str(cell.evaluation["protocol"][0]): {"encoder": score}}, budget=budget)


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """What is saved from now on."""
    saved: list[Figure] = []
    save = drawing.save

    def keep(figure: Figure, *where: Any) -> list[Path]:
        saved.append(figure)
        return save(figure, *where)

    monkeypatch.setattr(drawing, "save", keep)
    return saved


@pytest.mark.parametrize("match", ["views", "steps"])
def test_a_short_run_of_figure_a7_is_probed_several_times_at_equal_shares(match: Match) -> None:
    for cell in sheet_of(ITEMS["figureA7"], "mini", [0], match=match).cells.values():
        steps, every = cell.settings["max_steps"], cell.settings["probe_every_steps"]
        probed = {0, *range(every, steps, every), steps}
        assert len(probed) >= 5
        assert steps % every < every / 20  # the last one before the end is not next to it


SYSTEMS = ["CL (SimCLR)", "AU-CL", "HN-CL", "CACR (K=1)", "CMC (K=4)", "CACR (K=4)"]


@pytest.mark.parametrize(
    ("name", "setting", "values", "lines"),
    [
        ("figureA5", "batch_size", [64, 128, 256, 512, 768], SYSTEMS),
        ("figureA6", "views", [1, 2, 4, 6, 8, 10], ["CACR"]),
    ],
)
def test_accuracy_against_a_setting_is_drawn_from_records_alone(
    name: str, setting: str, values: list[int], lines: list[str], figures: list[Figure], tmp_path: Path
) -> None:
    ledger, plan = Ledger(tmp_path), Plan.of(name, scale="mini", seeds=2)
    assert plan.draw(plan.filled(ledger), ledger).files == []
    cells = plan.sheet(ledger)[0].cells.items()
    for (_, seed), cell in cells:
        ledger.keep(cell, _record(cell, cell.settings[setting] / 1000 + 0.02 * seed))
    assert [file.name for file in plan.draw(plan.filled(ledger), ledger).files] == [
        f"{name}-mini.png",
        f"{name}-mini.svg",
    ]
    (axes,) = figures[0].axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == lines
    for container in axes.containers:
        line, _, (bars,) = container
        assert line.get_xdata().tolist() == values
        trained = [value + (setting == "views") for value in values]
        assert line.get_ydata().tolist() == pytest.approx([value / 10 + 1 for value in trained])
        spans = [segment[:, 1] for segment in bars.get_segments()]
        assert [(high - low) / 2 for low, high in spans] == pytest.approx([2**0.5] * len(values))


def test_a_value_without_a_record_is_left_out_of_its_line(figures: list[Figure], tmp_path: Path) -> None:
    ledger, plan = Ledger(tmp_path), Plan.of("figureA6", scale="mini", seeds=1)
    for ((row, _), _), cell in plan.sheet(ledger)[0].cells.items():
        if row in ("CACR (K=1)", "CACR (K=10)"):
            ledger.keep(cell, _record(cell, 0.5))
    assert plan.draw(plan.filled(ledger), ledger).files
    assert figures[0].axes[0].containers[0][0].get_xdata().tolist() == [1, 10]


def test_every_line_is_named_if_the_last_column_is_empty(figures: list[Figure], tmp_path: Path) -> None:
    ledger, plan = Ledger(tmp_path), Plan.of("figure3", scale="mini", seeds=1, columns=["CIFAR-10"])
    for ((_, column), _), cell in plan.sheet(ledger)[0].cells.items():
        if column == "CIFAR-10":
            ledger.keep(cell, replace(_record(cell, 0.5), curves={"entropy": [[0.0, 3.0], [1.0, 4.0]]}))
    assert plan.draw(plan.filled(ledger), ledger).files
    (legend,) = (each.get_legend() for each in figures[0].axes if each.get_legend())
    assert [text.get_text() for text in legend.get_texts()] == SYSTEMS


def test_a_claim_about_a_curve_compares_its_last_values(tmp_path: Path) -> None:
    ledger, plan = Ledger(tmp_path), Plan.of("figure3", scale="mini", seeds=4)
    last = {"CACR (K=4)": 4.8, "CL (SimCLR)": 4.2}
    for ((row, _), seed), cell in plan.sheet(ledger)[0].cells.items():
        entropy = [
            [0.0, 9.0 - last.get(row, 4.0)],
            [1.0, last.get(row, 4.0) + 0.01 * seed * (row == "CACR (K=4)")],
        ]
        ledger.keep(cell, replace(_record(cell, 0.5), curves={"entropy": entropy}))
    (judged,) = reproduced(plan, ledger).claims
    assert judged.verdict == "confirmed" and judged.difference is not None
    assert judged.difference.mean == pytest.approx(0.6 + 0.015)


def test_a_run_that_cannot_be_drawn_is_named_and_the_table_is_still_made(tmp_path: Path) -> None:
    """Of two run folders one is of a cell that failed, and one is damaged."""
    ledger, plan = Ledger(tmp_path), Plan.of("figureA4", scale="mini", seeds=2)
    (_, first), *others = plan.sheet(ledger)[0].cells.items()
    ledger.keep(first, _record(first, 0.5))
    for cell in (first, others[0][1]):
        ledger.run(cell).mkdir(parents=True)
    done = reproduced(plan, ledger)
    (why,) = done.undrawn
    assert why.startswith("CIFAR-10, seed 0: ") and "is not a run folder" in why
    assert "| CL (SimCLR) |" in done.text


def test_mini_is_cifar_10_and_figure_a1_says_where_to_find_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"figureA1 has no scale mini: .*CIFAR-10.*figure3"):
        Plan.of("figureA1", scale="mini").sheet(Ledger(tmp_path))
    figures = [ITEMS[name] for name in ITEMS if name.startswith("figure") and not ITEMS[name].no_mini]
    cells = [cell for item in figures for cell in sheet_of(item, "mini", [0]).every()]
    assert {cell.settings["data"] for cell in cells} == {"cifar10"}


@pytest.mark.parametrize("name", ["figureA3", "figureA4"])
def test_run_folders_that_a_figure_lacks_are_named_with_what_to_do(
    name: str, run: Run, tmp_path: Path
) -> None:
    ledger, plan = Ledger(tmp_path), Plan.of(name, scale="mini", seeds=2)
    cells = plan.sheet(ledger)[0].cells
    assert reproduced(plan, ledger).undrawn == []  # not run yet, which the table says
    for cell in cells.values():
        ledger.keep(cell, _record(cell, 0.5))
    code, text = run("reproduce", name, "--seeds", 2, "--table", "--out", tmp_path)
    assert code == 0
    assert "figure:" not in text
    _, *told = text.split("not drawn: ")
    assert len(told) == len(cells)
    for line, ((place, seed), cell) in zip(told, cells.items(), strict=True):
        assert f"{place[0]}, CIFAR-10, seed {seed}" in line
        assert str(ledger.run(cell)) in line and str(ledger.file(cell)) in line
    assert (
        reproduced(Plan.of("figureA6", scale="mini"), ledger).undrawn == []
    )  # its scores are in the records
