"""Which encoder is kept without labels: the one that the rule names, and no other."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import cacr
from cacr.config import FORMAT
from cacr.diagnostics import selection
from cacr.diagnostics.observer import RunObserver
from cacr.diagnostics.selection import describe_best, drop_best_after, is_best
from cacr.encoders import load_encoder
from cacr.runs.folder import RunFolder
from cacr.runs.rows import read_rows
from cacr.runs.summary import MEASURED
from cacr.training.building.checkpoints import list_checkpoints, load_checkpoint
from tests.conftest import TINY, Run

pytestmark = pytest.mark.trains

SHORT = {**TINY, "epochs": 4, "measure_every_epochs": 1}


def _pretrain(out: Path, data: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> dict[int, dict]:
    """Train; returns the encoder's weights at each measurement by step."""
    seen: dict[int, dict] = {}
    look = RunObserver.look

    def remember(self: RunObserver, step: int, *others: Any):
        state = self._job.method.encoder.backbone.state_dict()
        seen[step] = {name: value.clone() for name, value in state.items()}
        return look(self, step, *others)

    monkeypatch.setattr(RunObserver, "look", remember)
    cacr.pretrain(data=data, out=out, **{**SHORT, **settings})
    return seen


def _assert_same(encoder: Path, weights: dict) -> None:
    found = load_encoder(encoder).backbone.state_dict()
    for name, value in weights.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=0)


def test_the_encoder_of_the_most_even_spread_is_kept_beside_the_last(
    classes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = _pretrain(tmp_path / "run", classes, monkeypatch)
    run = RunFolder(tmp_path / "run")
    rows = [row for row in read_rows(run.metrics) if "effective_rank" in row]
    assert [row["step"] for row in rows] == [0, 5, 10, 15, 20]
    best = min(rows[1:], key=lambda row: row["uniformity"])
    _assert_same(run.best, weights[best["step"]])
    _assert_same(run.path, weights[20])
    for folder, row in ((run.best, best), (run.path, rows[-1])):
        training = load_encoder(folder).info.training
        assert training["diagnostics"] == {name: row[name] for name in MEASURED}
        assert training["steps"] == row["step"] and training["finished"] == (row["step"] == 20)
    ((step, path),) = list_checkpoints(run.checkpoints)
    assert step == 20
    assert load_checkpoint(path)["diagnostics"] == {name: rows[-1][name] for name in MEASURED}


@pytest.mark.parametrize(("sign", "step"), [(-1, 5), (1, 20)])
def test_the_rule_decides_and_the_untrained_encoder_is_never_kept(
    sign: int, step: int, classes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "worth", lambda row: sign * row["step"])
    weights = _pretrain(tmp_path / "run", classes, monkeypatch)
    _assert_same(tmp_path / "run" / "best", weights[step])
    described = describe_best(RunFolder(tmp_path / "run"))
    assert (described is None) == (step == 20)
    results = cacr.evaluate(run=tmp_path / "run" / "best", data=classes, protocol="knn")
    assert results[0].training["steps"] == step
    assert list((tmp_path / "run" / "best" / "evaluation").glob("knn-*.json"))


def test_it_can_be_left_out(classes: Path, tmp_path: Path) -> None:
    cacr.pretrain(data=classes, out=tmp_path / "a", **{**SHORT, "epochs": 1, "keep_best": False})
    cacr.pretrain(data=classes, out=tmp_path / "b", **{**SHORT, "epochs": 1, "measure_every_epochs": 0})
    assert not (tmp_path / "a" / "best").exists() and not (tmp_path / "b" / "best").exists()
    assert load_encoder(tmp_path / "b").info.training["diagnostics"] == {}


def _keep(run: RunFolder, step: int) -> None:
    """As if the encoder of a step had been kept."""
    run.best.mkdir(parents=True, exist_ok=True)
    measured = {
        "step": step,
        "epoch": step / 10,
        "effective_rank": 5.0,
        "alignment": 0.5,
        "uniformity": -2.0,
    }
    info = {"encoder": "small_alexnet", "image_size": 32, "feature_dim": 8, "format": FORMAT}
    content = json.dumps({**info, "training": {"diagnostics": measured}})
    (run.best / "encoder.json").write_text(content)
    (run.best / "encoder.safetensors").write_bytes(b"weights")


def test_only_a_more_even_spread_replaces_what_is_kept(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)

    def rows(*spreads: float) -> list[dict[str, float]]:
        measured = [
            {"step": 10 * n, "effective_rank": 10.0 - n, "uniformity": -spread}
            for n, spread in enumerate(spreads)
        ]
        return [row for each in measured for row in ({"step": each["step"], "loss": 1.0}, each)]

    assert not is_best(run, rows(9.0))  # the untrained encoder
    assert is_best(run, rows(9.0, 2.0))
    _keep(run, 10)
    assert is_best(run, rows(9.0, 2.0, 3.0))
    assert not is_best(run, rows(9.0, 2.0, 2.0))
    assert not is_best(run, rows(9.0, 3.0, 2.0, 2.5))
    (run.best / "encoder.safetensors").unlink()
    assert is_best(run, rows(9.0, 3.0, 2.0))  # what was kept is gone


def test_a_resumed_run_forgets_what_it_has_not_reached(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    drop_best_after(run, 5)
    _keep(run, 10)
    drop_best_after(run, 10)
    assert (run.best / "encoder.safetensors").exists()
    (run.best / "evaluation").mkdir()
    drop_best_after(run, 9)
    assert [path.name for path in run.best.iterdir()] == ["evaluation"]
    _keep(run, 10)
    (run.best / "encoder.json").write_text("{")
    drop_best_after(run, 10)
    assert not (run.best / "encoder.safetensors").exists()


def test_an_interrupted_run_keeps_the_same_encoder_as_an_uninterrupted_one(
    classes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    cacr.pretrain(data=classes, out=whole, **SHORT)
    look = RunObserver.look

    def fail(self: RunObserver, step: int, *others: Any):
        if step == 15:
            raise KeyboardInterrupt
        return look(self, step, *others)

    with monkeypatch.context() as patch:
        patch.setattr(RunObserver, "look", fail)
        with pytest.raises(KeyboardInterrupt):
            cacr.pretrain(data=classes, out=parts, **SHORT, checkpoint_every_steps=7)
    cacr.pretrain(out=parts, resume=True)
    for name in ("encoder.safetensors", "encoder.json"):
        for folder in ("", "best"):
            assert (parts / folder / name).read_bytes() == (whole / folder / name).read_bytes(), (
                folder,
                name,
            )


def test_pretrain_says_where_the_more_even_spread_is(
    run: Run, classes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "worth", lambda row: -row["step"])
    arguments = [part for name, value in SHORT.items() for part in ("--set", f"{name}={value}")]
    code, text = run("pretrain", classes, "--out", tmp_path / "run", *arguments)
    assert code == 0 and "after epoch 1, in" in text and "run/best" in text
