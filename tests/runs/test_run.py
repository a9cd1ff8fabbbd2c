"""What a run is asked for, by name: one answer for everybody."""

import json
from pathlib import Path
from typing import Any

import pytest

from cacr.errors import UserError
from cacr.losses import OBJECTIVES
from cacr.runs.folder import RunFolder
from cacr.runs.result import fingerprint
from cacr.runs.run import Run, open_runs
from cacr.runs.scales import t_neg, t_pos
from tests.conftest import resolved


def _run(path: Path, **settings: Any) -> Run:
    folder = RunFolder(path)
    folder.create()
    folder.write_settings(resolved(**settings), {"cacr": "0.1.0"})
    return Run.open(path)


@pytest.mark.parametrize(
    ("objective", "options", "expected"),
    [
        ("cacr", {}, (1.0, 2.0)),
        ("cacr", {"t_pos": 1.5, "t_neg": 3}, (1.5, 3.0)),
        ("info_nce", {}, (1.0, 1 / (2 * 0.19))),
        ("info_nce", {"temperature": 0.25}, (1.0, 2.0)),
        ("hard_negative", {}, (1.0, 1.0)),
        ("barlow_twins", {}, (1.0, 2.0)),
    ],
)
def test_one_t_pos_and_one_t_neg(
    objective: str, options: dict[str, float], expected: tuple[float, float], tmp_path: Path
) -> None:
    run = _run(tmp_path, objective=objective, objective_options=options)
    assert (run.t_pos, run.t_neg) == (t_pos(objective, options), t_neg(objective, options)) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (1.0, 2.0)),
        ({"neg_weights": "flipped"}, (1.0, -2.0)),
        ({"pos_weights": "flipped", "neg_weights": "uniform", "t_pos": 0.5}, (-0.5, 0.0)),
    ],
)
def test_weights_are_drawn_with_the_signs_of_the_objective(
    options: dict[str, Any], expected: tuple[float, float], tmp_path: Path
) -> None:
    assert _run(tmp_path, objective_options=options).weighing == expected


def test_every_objective_has_them() -> None:
    for objective in OBJECTIVES:
        assert t_pos(objective, {}) > 0 and t_neg(objective, {}) > 0


def test_a_t_neg_that_is_no_number_is_refused_with_the_files_name(tmp_path: Path) -> None:
    for number, wrong in enumerate(({"t_neg": "x"}, {"t_neg": [1]}, {"t_neg": True}, {"t_neg": -1})):
        run = _run(tmp_path / str(number), objective_options=wrong)
        with pytest.raises(UserError, match=r"config\.yaml is damaged: t_neg of objective cacr cannot be"):
            _ = run.t_neg
    config = run.folder.config
    config.write_text(config.read_text().replace("objective: cacr", "objective: mine"))
    with pytest.raises(UserError, match=r"config\.yaml is damaged: there is no objective 'mine'"):
        _ = Run.open(run.path).t_neg


def test_the_same_but_for_the_seed(tmp_path: Path) -> None:
    first = _run(tmp_path / "a")
    same = {"seed": 3, "workers": 2, "devices": 2, "data_root": "elsewhere", "measure_every_epochs": 5}
    assert _run(tmp_path / "b", **same).learned == first.learned
    for name, value in {
        "optimizer": "adam",
        "preset": "moco-v2",
        "head": "mlp",
        "image_size": 64,
        "lr": 0.5,
        "data": "stl10",
        "epochs": 3,
        "objective_options": {"t_neg": 1.0},
    }.items():
        assert _run(tmp_path / name, **{name: value}).learned != first.learned, name


def test_names_are_told_apart(tmp_path: Path) -> None:
    paths = [tmp_path / "x" / "run", tmp_path / "y" / "run", tmp_path / "y" / "other"]
    for path in paths:
        _run(path)
    assert [run.name for run in open_runs(paths)] == ["x-run", "y-run", "other"]


def test_files_are_read_when_asked_for_and_once(trained: Path, tmp_path: Path) -> None:
    run = Run.open(trained)
    assert run.versions["cacr"] and run.settings.views == 3 and run.training.steps == 10
    assert run.budget.steps == 10 and run.info.image_size == 32 and run.verdict is None
    assert run.digest == fingerprint(trained / "encoder.safetensors")
    assert run.division is not None and run.division.origin == "test" and run.kept is None
    assert [row["step"] for row in run.rows] == list(range(1, 11)) and run.rows is run.rows
    young = _run(tmp_path / "young")
    assert not young.has_encoder and young.digest == "" and young.rows == [] and young.results == []
    with pytest.raises(UserError, match="has no encoder"):
        _ = young.info
    with pytest.raises(UserError, match="is not a run folder"):
        Run.open(tmp_path)


def test_a_summary_of_other_types_is_refused(trained: Path, tmp_path: Path) -> None:
    _run(tmp_path)
    described = json.loads((trained / "encoder.json").read_text())
    described["training"] |= {"steps": [1], "finished": "yes"}
    (tmp_path / "encoder.json").write_text(json.dumps(described))
    with pytest.raises(UserError, match=r"encoder\.json is damaged: training: steps: .*; finished: "):
        _ = Run.open(tmp_path).training
