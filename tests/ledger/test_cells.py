"""A ledger: cells named by what decides them, kept for good, never run twice."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import cacr
from cacr.config import EvaluateSettings, PretrainSettings
from cacr.errors import INTERRUPTED, UserError
from cacr.evaluation.settings import Evaluation
from cacr.ledger import (
    ITEMS,
    Ledger,
    Orders,
    Plan,
    Record,
    by_training,
    cell_command,
    orders_of,
    reproduced,
    work,
    work_through,
)
from cacr.ledger.cell import Cell
from cacr.ledger.claims import judge
from cacr.ledger.item import LOWER_RATES, RATES, Claim, Column, Item, Row
from cacr.ledger.record import Failure
from cacr.ledger.scales import TRIAL_SEED, VIEWS, sheet_of
from cacr.training.settings.check import check_settings
from cacr.training.settings.layers import with_recipe
from tests.conftest import Run, refused

TOY = Item(
    "toy",
    "two rows on two columns",
    (
        Row("ours", {"objective": "cacr", "t_neg": 2.0}, tuned={"t_neg": (1.0, 4.0)}),
        Row("theirs", {"objective": "info_nce"}, tuned={"temperature": (0.1, 0.5)}),
    ),
    (
        Column("regular", mini=True),
        Column("skewed", settings={"imbalance": "exponential"}, mini=True, drop_from="regular"),
    ),
    claims=(
        Claim.above("ours is above theirs", ("ours", "regular"), ("theirs", "regular")),
        Claim.above("theirs is above ours, skewed", ("theirs", "skewed"), ("ours", "skewed")),
        Claim(
            "ours loses less",
            {
                ("ours", "skewed"): 1.0,
                ("ours", "regular"): -1.0,
                ("theirs", "skewed"): -1.0,
                ("theirs", "regular"): 1.0,
            },
        ),
    ),
    paper={"ours": (86.5, 75.9), "theirs": (83.5, None)},
)


def _record(cell: Cell, score: float) -> Record:
    names = ("untrained", "pixels") if cell.subject == "start" else ("encoder",)
    scores = {str(cell.evaluation["protocol"][0]): dict.fromkeys(names, score)}
    budget = {"images": 1000, "views": 5, "batch_size": 10, "steps": 40, "views_seen": 2000}
    return Record(cell.content, scores, budget=budget)


def _fill(plan: Plan, ledger: Ledger, score: Any) -> None:
    for (place, seed), cell in plan.sheet(ledger)[0].cells.items():
        ledger.keep(cell, _record(cell, score(place, seed)))


def test_a_cell_is_named_by_everything_that_decides_it() -> None:
    cell = Cell("encoder", {"seed": 0, "t_neg": 2.0, "views": 5}, {"protocol": ["linear"]})
    assert cell.digest == replace(cell, settings={"views": 5, "seed": 0, "t_neg": 2.0}).digest
    assert cell.digest == replace(cell, evaluation={"protocol": ("linear",)}).digest
    others = [
        replace(cell, subject="start"),
        replace(cell, settings={**cell.settings, "seed": 1}),
        replace(cell, settings={**cell.settings, "t_neg": 2.5}),
        replace(cell, evaluation={"protocol": ["knn"]}),
    ]
    assert len({each.digest for each in [cell, *others]}) == 5


def test_cells_that_judge_one_training_share_its_run_folder_and_its_command(tmp_path: Path) -> None:
    ledger, item = Ledger(tmp_path), ITEMS["table7"]
    sheet = sheet_of(item, "paper", [0])
    voc, coco = (sheet.cells[("CACR (K=4)", f"{name} AP"), 0] for name in ("VOC", "COCO boxes"))
    assert (
        sheet.cells[("CACR (K=4)", "COCO masks AP75"), 0] == coco != voc
    )  # one detector has boxes and masks
    assert ledger.run(voc) == ledger.run(coco) and ledger.lock(voc) == ledger.lock(coco)
    together = by_training(sheet.every())
    assert [voc, coco] in together
    assert len(together) == 9 + 1  # rows with a recipe, and what was there before training
    command = cell_command("table7", ["--scale", "paper"])([voc, coco])
    assert command[-2:] == ["--cell", f"{voc.digest},{coco.digest}"]


def test_known_numbers_give_the_known_verdicts(tmp_path: Path) -> None:
    ledger, plan = Ledger(tmp_path), Plan(TOY, "mini", seeds=4)
    level = {
        ("ours", "regular"): 0.80,
        ("theirs", "regular"): 0.70,
        ("ours", "skewed"): 0.60,
        ("theirs", "skewed"): 0.50,
    }
    # seeds move both rows of a column alike but for a little: a paired test sees the difference, a spread would not
    _fill(
        plan,
        ledger,
        lambda place, seed: level[place] + 0.05 * seed + 0.001 * (seed % 2) * (place[0] == "ours"),
    )
    judged = plan.filled(ledger).judged
    assert [each.verdict for each in judged] == ["confirmed", "contradicted", "not shown"]
    assert judged[0].difference is not None
    assert judged[0].difference.mean == pytest.approx(100 * 0.1005)
    text = plan.text(plan.filled(ledger))
    assert "| ours | 87.55 ± 6.48 (4) [86.5] | 67.55 ± 6.48 (4) [75.9], drop 20.00 |" in text
    assert "| theirs | 77.50 ± 6.45 (4) [83.5] | 57.50 ± 6.45 (4), drop 20.00 |" in text
    assert "contradicted at this scale" in text
    assert "Incomplete: 8 cells" in text  # before training, and pixels


def test_a_table_names_what_its_cells_do_not_have_in_common(tmp_path: Path) -> None:
    ledger, plan = Ledger(tmp_path), Plan(ITEMS["tableA5"], "mini", seeds=2)
    cells = plan.sheet(ledger)[0].cells.items()
    for (_, seed), cell in cells:
        resolved = {"precision": "bf16", "gamma": 0.1, "seed": seed}
        ledger.keep(cell, replace(_record(cell, 0.5), resolved=resolved))
    assert "Not alike" not in reproduced(plan, ledger).text
    (place, _), odd = next(iter(cells))
    ledger.keep(odd, replace(_record(odd, 0.5), resolved={"precision": "float32", "gamma": 0.2, "seed": 0}))
    text = reproduced(plan, ledger).text
    assert f"Not alike: the seeds of {place[0]}, {place[1]} differ in precision, gamma." in text
    assert "Not alike: cells have different precisions: bf16, float32." in text


def test_curves_are_drawn_from_records_alone(tmp_path: Path) -> None:
    ledger, plan = Ledger(tmp_path), Plan(ITEMS["figure3"], "mini", seeds=2)
    assert plan.draw(plan.filled(ledger), ledger).files == []
    for (_, seed), cell in plan.sheet(ledger)[0].cells.items():
        curves = {"entropy": [[0.0, 3.0 + seed], [1.0, 4.0]], "max_entropy": [[0.0, 4.8], [1.0, 4.8]]}
        ledger.keep(cell, replace(_record(cell, 0.5), curves=curves))
    files = plan.draw(plan.filled(ledger), ledger).files
    assert [file.name for file in files] == ["figure3-mini.png", "figure3-mini.svg"]
    svg = files[1].read_text()
    assert "CACR (K=4)" in svg
    assert "CIFAR-10, linear" in svg


def test_claims_need_seeds_that_all_sides_have(tmp_path: Path) -> None:
    ledger, plan = Ledger(tmp_path), Plan(TOY, "mini", seeds=3)
    assert {each.verdict for each in plan.filled(ledger).judged} == {"not run"}
    for (place, seed), cell in plan.sheet(ledger)[0].cells.items():
        if seed == (0 if place[0] == "ours" else 1):
            ledger.keep(cell, _record(cell, 0.5))
    assert {each.verdict for each in plan.filled(ledger).judged} == {"not shown, too few seeds"}


def test_cells_are_shared_between_items_and_scales_are_equal_in_views() -> None:
    found = {
        name: {cell.digest for cell in sheet_of(ITEMS[name], "mini", [0]).cells.values()}
        for name in ("table2", "tableA1", "tableA4", "figure3")
    }
    assert found["tableA1"] < found["table2"]
    assert found["figure3"] < found["table2"]
    assert len(found["tableA4"] & found["table2"]) == 1
    for cell in sheet_of(ITEMS["table2"], "mini", [0]).cells.values():
        seen = cell.settings["views"] * cell.settings["batch_size"] * cell.settings["max_steps"]
        assert seen == pytest.approx(VIEWS, rel=0.002)


def test_rows_have_as_many_trials_as_they_can_use_and_none_looks_at_test_labels() -> None:
    items = [item for item in map(ITEMS.__getitem__, ITEMS) if not item.no_mini and not item.timed_steps]
    for item in (TOY, *items):
        sheet = sheet_of(item, "mini", [0], tune=True)
        assert not sheet.cells  # they are known when the trials are done
        for (row, _), tried in sheet.trials.items():
            # what a table sweeps is not tuned, nor what has no effect: these rows have the rates alone
            alone = item.name == "tableA6" or row in ("without pi-", "without both (UAUR)")
            assert len(tried) == (1 if alone else 2) * len(RATES)
            assert len({cell.digest for _, cell in tried}) == len(tried)
            for settings, cell in tried:
                assert cell.evaluation["held_out"] is True
                assert len(cell.evaluation["protocol"]) == 1
                assert cell.seed == TRIAL_SEED
                assert settings.items() <= cell.settings.items()


def test_rates_of_trials_are_per_step() -> None:
    """``base_lr`` is for 256 images: rows with more images per step must not get larger rates by that."""
    sheet = sheet_of(ITEMS["table2"], "mini", [0], tune=True)
    for (row, _), tried in sheet.trials.items():
        found = {s["base_lr"] * cell.settings["batch_size"] / 256 for s, cell in tried}
        lower = row.startswith(("CL", "HN", "CMC"))  # those with a temperature
        assert sorted(found) == pytest.approx(LOWER_RATES if lower else RATES)


def test_a_column_can_have_the_trials_of_another(tmp_path: Path) -> None:
    """The linear rule of table 2 is tuned with all images: no trials of its own, and the same choice."""
    regular, linear = "CIFAR-10", "CIFAR-10, linear"
    ledger, plan = Ledger(tmp_path), Plan(ITEMS["table2"], "mini", seeds=1, tune=True, columns=(linear,))
    trials = plan.sheet(ledger)[0].trials
    assert trials["AU-CL", linear] == trials["AU-CL", regular]
    assert trials["AU-CL", linear] != trials["AU-CL", "CIFAR-10, exponential"]
    assert all("imbalance" not in cell.settings for cell in plan.cells(ledger) if cell.subject == "encoder")
    for number, (_, cell) in enumerate(trials["AU-CL", regular]):
        ledger.keep(cell, _record(cell, 0.1 * number))
    plan.decide(ledger)
    sheet, chosen = plan.sheet(ledger)
    assert chosen["AU-CL", linear] == chosen["AU-CL", regular] == trials["AU-CL", regular][-1][0]
    assert sheet.cells[("AU-CL", linear), 0].settings["imbalance"] == "linear"
    assert "CIFAR-10, linear has the settings of CIFAR-10" in plan.text(plan.filled(ledger))


def test_the_best_trial_decides_and_a_diverged_one_does_not(tmp_path: Path) -> None:
    ledger, plan = Ledger(tmp_path), Plan(TOY, "mini", seeds=2, tune=True)
    trials = plan.sheet(ledger)[0].trials
    for place, tried in trials.items():
        for number, (_, cell) in enumerate(tried):
            assert not plan.sheet(ledger)[0].cells or place != ("ours", "regular")
            if place == ("ours", "regular") and number == 7:
                ledger.fail(cell, Failure("no longer finite", "diverged"))
            else:
                ledger.keep(cell, _record(cell, 0.1 * number))
    sheet, chosen = plan.sheet(ledger)
    assert chosen["ours", "regular"] == {"base_lr": 1.08, "t_neg": 1.0}  # the last but one
    assert chosen["theirs", "skewed"] == {"base_lr": 1.08, "temperature": 0.5}
    assert len(sheet.cells) == 4 * 2
    assert all(cell.settings["base_lr"] == 1.08 for cell in sheet.cells.values())
    assert "held_out" not in next(iter(sheet.cells.values())).evaluation
    assert "theirs, skewed: base_lr=1.08 temperature=0.5" in plan.text(plan.filled(ledger))


def test_a_choice_stays_when_a_diverged_trial_succeeds_later(tmp_path: Path) -> None:
    ledger, plan = Ledger(tmp_path), Plan(TOY, "mini", seeds=2, tune=True)
    for tried in plan.sheet(ledger)[0].trials.values():
        for number, (_, cell) in enumerate(tried):
            if number == 7:
                ledger.fail(cell, Failure("no longer finite", "diverged"))
            else:
                ledger.keep(cell, _record(cell, 0.1 * number))
    plan.decide(ledger)
    before = plan.sheet(ledger)[1]
    trials = [cell for tried in plan.sheet(ledger)[0].trials.values() for _, cell in tried]
    assert not {cell.digest for cell in trials} & {cell.digest for cell in plan.cells(ledger)}
    for cell in trials:
        ledger.keep(cell, _record(cell, 1.0))  # what failed is the best now
    assert plan.sheet(ledger)[1] == before
    shutil.rmtree(tmp_path / "choices")
    assert plan.sheet(ledger)[1] != before


def test_a_table_names_what_is_not_tuned_yet_and_why_trials_failed(tmp_path: Path) -> None:
    ledger, plan = Ledger(tmp_path), Plan(TOY, "mini", seeds=1, tune=True)
    for place, tried in plan.sheet(ledger)[0].trials.items():
        for _, cell in tried:
            if place == ("ours", "regular"):
                ledger.fail(cell, Failure("no memory"))
            elif place[0] == "theirs":
                ledger.keep(cell, _record(cell, 0.5))
    for cell in plan.sheet(ledger)[0].references.values():
        ledger.fail(cell, Failure("no pixels"))
    text = plan.text(plan.filled(ledger))
    assert "Incomplete: ours, regular: 8 of 8 trials that choose settings are not finished (8 failed" in text
    assert "Incomplete: ours, skewed: 8 of 8 trials that choose settings are not finished." in text
    assert "Failed: trial of ours, regular with base_lr=0.12 t_neg=1.0: no memory" in text
    assert "Failed: before training, skewed, seed 0: no pixels" in text


def test_rows_and_columns_choose_what_is_run_and_seeds_come_first(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    whole, part = (Plan(TOY, "mini", seeds=2, rows=rows) for rows in ((), ("ours",)))
    assert [cell.seed for cell in whole.cells(ledger)] == [0] * 6 + [1] * 6  # two rows, and what was before
    assert len(part.cells(ledger)) == 2 * (2 + 2)
    assert "| theirs |" in part.text(part.filled(ledger))
    one = Plan(TOY, "mini", seeds=1, columns=("skewed",)).cells(ledger)
    assert {cell.settings.get("imbalance") for cell in one} == {"exponential"}
    tuned = Plan(TOY, "mini", seeds=1, tune=True, rows=("ours",), columns=("regular",)).cells(ledger)
    assert len([cell for cell in tuned if cell.subject == "encoder"]) == 8
    with pytest.raises(UserError, match=r"no row 'our'.*did you mean ours"):
        Plan(TOY, "mini", rows=("our",))
    with pytest.raises(UserError, match=r"no column 'regluar'.*did you mean regular"):
        Plan(TOY, "mini", columns=("regluar",))


def test_equal_trainings_of_several_items_are_one_cell() -> None:
    def digest(item: str, row: str) -> str:
        return sheet_of(ITEMS[item], "mini", [0]).cells[(row, "CIFAR-10"), 0].digest

    whole = digest("table2", "CACR (K=4)")
    assert whole == digest("tableA5", "t+ = 1") == digest("tableA13", "CACR (K=4), Euclidean")
    assert whole == digest("tableA6", "K=4, t- = 0.9") != digest("tableA6", "K=4, t- = 2")


def test_the_loss_from_regular_data_is_that_of_the_same_data() -> None:
    drops = {column.name: column.drop_from for column in ITEMS["table2"].columns}
    assert drops == {
        "CIFAR-10": "",
        "CIFAR-100": "",
        "CIFAR-10, linear": "CIFAR-10",
        "CIFAR-100, linear": "CIFAR-100",
        "CIFAR-10, exponential": "CIFAR-10",
        "CIFAR-100, exponential": "CIFAR-100",
    }


def test_time_is_measured_in_short_runs_one_after_the_other(tmp_path: Path) -> None:
    plan = Plan.of("tableA7", scale="mini", seeds=1)
    sheet, _ = plan.sheet(Ledger(tmp_path))
    assert {cell.settings["max_steps"] for cell in sheet.cells.values()} == {60}
    assert not sheet.references and not any(cell.evaluation for cell in sheet.cells.values())
    with pytest.raises(UserError, match="leave out --jobs"):
        orders_of(plan, tmp_path, tmp_path, download=False, jobs=2, tell=print)
    with pytest.raises(UserError, match="nothing to tune"):
        Plan.of("tableA7", scale="mini", tune=True).cells(Ledger(tmp_path))


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ((0.1, -0.1, 0.2), "confirmed"),
        ((4.0, 4.1, 4.2), "contradicted"),
        ((0.1, 3.0, -2.0), "not shown"),
    ],
)
def test_a_claim_of_no_difference_needs_an_interval_within_its_bounds(
    differences: tuple[float, ...], verdict: str
) -> None:
    one, other = ("a", "x"), ("b", "x")
    scores = {one: dict(enumerate(differences)), other: dict.fromkeys(range(3), 0.0)}
    assert judge(Claim.equal("equal", one, other, within=1.0), scores).verdict == verdict


def test_a_stopped_process_is_no_failure_of_its_cell(tmp_path: Path) -> None:
    ledger, told = Ledger(tmp_path), list[str]()
    cell = Plan(TOY, "mini", seeds=1).cells(ledger)[0]
    for code in (f"import sys; sys.exit({INTERRUPTED})", "import os; os.kill(os.getpid(), 15)"):
        command = [sys.executable, "-c", code]
        orders = replace(_orders(ledger, told, jobs=2), command=lambda cells, command=command: command)
        assert work_through([cell], orders)
        assert "stopped" in told[-1] and "failed" not in told[-1]
        assert not ledger.failure(cell)
    command = [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]
    work_through([cell], replace(_orders(ledger, told, jobs=2), command=lambda cells: command))
    failure = ledger.failure(cell)
    assert failure is not None and "ended by signal 9" in failure.why and failure.kind == "other"


def _orders(ledger: Ledger, told: list[str], jobs: int = 1) -> Orders:
    command = cell_command("table2", [])
    return Orders(ledger, Path("data"), False, jobs, command, told.append)


def test_what_has_a_record_is_never_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, plan = Ledger(tmp_path / "a"), Plan(TOY, "mini", seeds=1)
    cells = plan.sheet(ledger)[0].every()
    for cell in cells:
        ledger.keep(cell, _record(cell, 0.5))
    moved = Ledger(tmp_path / "b")
    shutil.copytree(ledger.cells, moved.cells)  # records alone, as they are committed
    monkeypatch.setattr(work, "pretrain", lambda *_, **__: pytest.fail("a finished cell was run"))
    assert work_through(plan.sheet(moved)[0].every(), _orders(moved, []))
    assert work.work_on(cells[0], moved, Path("data")).scores == ledger.find(cells[0]).scores  # type: ignore[union-attr]


def test_a_cell_that_fails_is_told_and_the_next_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, plan, told = Ledger(tmp_path), Plan(TOY, "mini", seeds=1), list[str]()

    def fail(values: dict[str, Any], *_: Any, **__: Any) -> None:
        raise UserError(f"no data for {values['seed']}")

    monkeypatch.setattr(work, "pretrain", fail)
    cells = plan.sheet(ledger)[0].every()
    assert work_through(cells, _orders(ledger, told))
    assert len(told) == len(cells)
    assert f"{len(cells)} of {len(cells)} cells, done in" in told[-1]
    text = plan.text(plan.filled(ledger))
    assert "Failed: ours, regular, seed 0: UserError: no data for 0" in text
    ledger.keep(cells[0], _record(cells[0], 0.5))
    assert not ledger.failure(cells[0])


def test_whatever_fails_in_a_cell_does_not_end_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, told = Ledger(tmp_path), list[str]()

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(work, "pretrain", fail)
    cells = Plan(TOY, "mini", seeds=1).sheet(ledger)[0].every()
    assert work_through(cells, _orders(ledger, told))
    assert len(told) == len(cells)
    assert "failed: RuntimeError: shapes do not match" in told[0]


def test_a_damaged_or_foreign_record_is_named(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    first, second = Plan(TOY, "mini", seeds=2).sheet(ledger)[0].every()[:2]
    ledger.keep(first, _record(first, 0.5))
    shutil.copy(ledger.file(first), ledger.file(second))
    with pytest.raises(UserError, match="another cell"):
        ledger.find(second)
    content = json.loads(ledger.file(first).read_text())
    ledger.file(first).write_text(json.dumps(content | {"scores": {"linear": "much"}}))
    with pytest.raises(UserError, match=r"damaged.*scores"):
        ledger.find(first)


@pytest.mark.parametrize("name", ITEMS.names())
@pytest.mark.parametrize("scale", ["smoke", "mini", "paper"])
def test_every_cell_is_a_training_that_can_begin(name: str, scale: Any) -> None:
    item = ITEMS[name]
    refusal = "has no scale mini" if scale == "mini" and item.no_mini else ""
    if scale == "paper" and name == "table2-caltech101":
        refusal = "not in the paper"
    if refusal:
        with pytest.raises(UserError, match=refusal):
            sheet_of(item, scale, [0])
        return
    sheet = sheet_of(item, scale, [0])
    assert sheet.cells
    for cell in sheet.every():
        check_settings(with_recipe(cell.settings))
        if cell.evaluation:
            asked = Evaluation.parse(cell.evaluation)
            # how many images are encoded at once is the machine's, not the item's: it was meant for a protocol
            assert asked.settings.batch_size == EvaluateSettings.model_fields["batch_size"].default


def test_settings_of_mini_are_settings() -> None:
    from cacr.ledger.scales import MINI

    assert MINI.keys() <= PretrainSettings.model_fields.keys()


def test_python_gives_the_table_the_verdicts_and_the_figures(tmp_path: Path) -> None:
    ledger, plan = Ledger(tmp_path), Plan.of("tableA3", scale="mini", seeds=3)
    for cell in plan.sheet(ledger)[0].references.values():
        ledger.keep(cell, _record(cell, 0.5))
    places = [row.name for row in plan.item.rows]  # CACR's own signs come first
    _fill(plan, ledger, lambda place, seed: 0.9 - 0.1 * places.index(place[0]) * (1 + 0.01 * seed))
    found = cacr.reproduce(item="tableA3", scale="mini", seeds=3, out=tmp_path)
    assert found.finished and found.text == plan.text(plan.filled(ledger), tmp_path) and found.figures == []
    assert [each.verdict for each in found.claims] == ["confirmed", "confirmed"]
    with pytest.raises(UserError, match="has no scale mini"):
        cacr.reproduce(item="table7", out=tmp_path)


def test_at_the_papers_scale_numbers_are_compared_with_the_papers(tmp_path: Path) -> None:
    ledger, plan = Ledger(tmp_path), Plan.of("tableA3", scale="paper", seeds=2)
    papers = {row: numbers[0] / 100 for row, numbers in plan.item.paper.items()}
    far = list(papers)[-1]
    _fill(plan, ledger, lambda place, seed: papers[place[0]] + (0.025 if place[0] == far else 0.009))
    text = plan.text(plan.filled(ledger))
    assert f"3 of 4 numbers are within 1 points of the paper's; not: {far}, CIFAR-10 (+2.50)." in text
    _fill(plan, ledger, lambda place, seed: papers[place[0]])
    assert "4 of 4 numbers are within 1 points of the paper's." in plan.text(plan.filled(ledger))
    mini = Plan.of("tableA3", scale="mini", seeds=2)
    assert "numbers are within" not in mini.text(mini.filled(ledger))


def test_bad_input_is_one_message(run: Run, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "ledger")
    refused(run, ["reproduce", "tabel2"], "did you mean table")
    refused(run, ["reproduce", "table2", "--cell", "123", *out], "no cell 123", "--print-cells")
    refused(run, ["reproduce", "table2", "--scale", "paper", "--tune", *out], "--tune works only with")
    refused(run, ["reproduce", "tableA7", "--match", "epochs", *out], "--match works only with --scale mini")
    refused(run, ["reproduce", "table2", "--row", "CACR", *out], "no row 'CACR'", "did you mean CACR (K=")
    assert not (tmp_path / "ledger").exists()


def test_cells_are_printed_as_commands(run: Run, tmp_path: Path) -> None:
    code, text = run("reproduce", "tableA3", "--print-cells", "--seeds", 1, "--out", tmp_path / "my ledger")
    assert code == 0
    assert text.count("cacr reproduce tableA3 --scale mini") == 5  # four rows, and what was before training
    assert f"--out '{tmp_path}/my ledger'" in text and "wait for trials" not in text
    code, text = run("reproduce", "tableA3", "--print-cells", "--tune", "--seeds", 1, "--out", tmp_path)
    assert code == 0 and "# 4 places wait for trials" in text


def test_the_list_has_every_item_with_its_claims(run: Run) -> None:
    code, text = run("reproduce", "--list")
    assert code == 0
    assert all(name in text for name in ITEMS)
    assert "learns better features than CL" in text
    assert text.index("tableA2 ") < text.index("tableA10") < text.index("tableA13")
    assert "ImageNet-1K against epochs (not at the scale mini)" in text
