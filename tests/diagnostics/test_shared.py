"""Several processes share the images that are measured, and see what one sees."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cacr.diagnostics.observer import observe
from cacr.runs.run import Run
from cacr.training.pretrain import pretrain
from tests.conftest import TINY, save_images

pytestmark = pytest.mark.trains


def _processes(*arguments: object, devices: int = 2, **settings: object) -> subprocess.CompletedProcess[str]:
    flags = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    command = [sys.executable, "-m", "cacr", "pretrain", *map(str, arguments), "--devices", devices, *flags]
    return subprocess.run([*map(str, command)], capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize(("devices", "seen"), [(2, 64), (4, 128)])
def test_several_processes_measure_what_one_does(devices: int, seen: int, tmp_path: Path) -> None:
    """140 images are three chunks: one for the first of two processes, two for the second, and all for each of four."""
    for number in range(2):
        save_images(tmp_path / "data" / f"class{number}", 70, size=32, seed=number)
    settings = {**TINY, "max_steps": 1}
    pretrain({"data": str(tmp_path / "data"), **settings}, tmp_path / "one", observe=observe)
    done = _processes(tmp_path / "data", "--out", tmp_path / "several", devices=devices, **settings)
    assert done.returncode == 0, done.stderr
    one, several = (
        json.loads((tmp_path / run / "metrics.jsonl").read_text().split("\n")[0])
        for run in ("one", "several")
    )
    assert one["step"] == several["step"] == 0 and one.keys() == several.keys()
    assert one.keys() >= {"knn", "pixels_knn", "strong_rank", "half_agreement", "pixels_view_retrieval"}
    for name, value in one.items():
        assert several[name] == pytest.approx(value, rel=1e-4, abs=1e-5), name
    run = Run.open(tmp_path / "several")
    assert run.pictures.first.shape[0] == run.snapshots[0].z.shape[1] == seen


@pytest.mark.slow
def test_a_collapse_stops_both_processes(photos: Path, tmp_path: Path) -> None:
    """Without repulsion everything becomes one point; the first process sees it, and the second ends with it."""
    settings = {
        **TINY,
        "head": "linear",
        "repulsion": 0,
        "lr": 1.0,
        "epochs": 30,
        "measure_every_epochs": 1,
        "seed": 1,
    }
    done = _processes(photos, "--out", tmp_path / "run", "--on-collapse", "stop", **settings)
    assert done.returncode == 2, done.stderr
    assert done.stdout.count("collapsed to a point") == 1 and "--resume" in done.stdout
    assert "Traceback" not in done.stderr
    verdict = json.loads((tmp_path / "run" / "verdict.json").read_text())
    assert verdict["verdict"] == "collapsed to a point" and 30 <= verdict["step"] < 60
    last = sorted((tmp_path / "run" / "checkpoints").iterdir())[-1]
    assert str(verdict["step"]) in last.name
