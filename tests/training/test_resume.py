"""A run that was killed or interrupted and then resumed ends with the weights of one that never stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from cacr.errors import SettingsError, UserError
from cacr.training.checkpoints import list_checkpoints, load_checkpoint
from cacr.training.pretrain import pretrain
from cacr.training.run_folder import RunFolder
from tests.conftest import TINY

EPOCHS, STEPS = 4, 12  # 26 images in batches of 8: three full batches and one of two
SETTINGS = {**TINY, "epochs": EPOCHS, "batch_size": 8, "log_every_steps": 1, "checkpoint_every_steps": 1}


def _command(data: Path, out: Path, *more: str) -> list[str]:
    settings = [part for name, value in SETTINGS.items() for part in ("--set", f"{name}={value}")]
    return [sys.executable, "-m", "cacr", "pretrain", str(data), "--out", str(out), *settings, *more]


@pytest.fixture(scope="module")
def uninterrupted(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("resume") / "whole"
    pretrain({"data": str(photos), **SETTINGS}, out)
    return out


def _assert_equal_runs(first: Path, second: Path) -> None:
    one, other = load_file(first / "encoder.safetensors"), load_file(second / "encoder.safetensors")
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    states = [load_checkpoint(list_checkpoints(RunFolder(run).checkpoints)[-1][1]) for run in (first, second)]
    assert states[0]["step"] == states[1]["step"]
    for name, tensor in states[0]["method"].items():
        assert torch.equal(tensor, states[1]["method"][name]), name
    momenta = [
        [value["momentum_buffer"] for value in state["optimizer"]["state"].values()] for state in states
    ]
    assert all(torch.equal(a, b) for a, b in zip(*momenta, strict=True))
    losses = [
        [(row["step"], row["loss"]) for row in RunFolder(run).read_metrics()] for run in (first, second)
    ]
    assert losses[0] == losses[1]


@pytest.mark.parametrize("kill_after_step", [1, 6])
def test_killed_and_resumed_equals_uninterrupted(
    photos: Path, uninterrupted: Path, tmp_path: Path, kill_after_step: int
) -> None:
    out = tmp_path / "killed"
    process = subprocess.Popen(_command(photos, out), stdout=subprocess.DEVNULL)
    while process.poll() is None:
        steps = [step for step, _ in list_checkpoints(out / "checkpoints")]
        if steps and steps[-1] >= kill_after_step:
            break
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert list_checkpoints(out / "checkpoints")[-1][0] < STEPS * EPOCHS
    subprocess.run(_command(photos, out, "--resume"), check=True, stdout=subprocess.DEVNULL)
    _assert_equal_runs(uninterrupted, out)


def test_control_c_saves_and_says_how_to_go_on(photos: Path, uninterrupted: Path, tmp_path: Path) -> None:
    out = tmp_path / "interrupted"
    process = subprocess.Popen(
        [*_command(photos, out), "--set", "checkpoint_every_steps=1000"], stdout=subprocess.PIPE, text=True
    )
    while not (out / "metrics.jsonl").exists() or not (out / "metrics.jsonl").read_text():
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate()
    assert process.returncode == 130
    assert f"cacr pretrain --out {out} --resume" in output.replace("\n", " ").replace("  ", " ")
    pretrain({}, out, resume=True)
    _assert_equal_runs(uninterrupted, out)


def test_resuming_a_finished_run_does_nothing(trained: Path) -> None:
    before = {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()}
    assert pretrain({}, trained, resume=True).status == "already finished"
    assert {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()} == before


def test_more_epochs_follow_the_schedule_of_the_longer_run(photos: Path, tmp_path: Path) -> None:
    short, long = {**SETTINGS, "epochs": 1}, {**SETTINGS, "epochs": 2}
    pretrain({"data": str(photos), **short}, tmp_path / "extended")
    pretrain({"epochs": 2}, tmp_path / "extended", resume=True)
    pretrain({"data": str(photos), **long}, tmp_path / "long")
    extended, whole = (RunFolder(tmp_path / name).read_metrics() for name in ("extended", "long"))
    assert [row["step"] for row in extended] == [row["step"] for row in whole]
    after = len(whole) // 2
    assert [row["lr"] for row in extended[after:]] == [row["lr"] for row in whole[after:]]
    assert [row["lr"] for row in extended[:after]] != [row["lr"] for row in whole[:after]]


def test_a_resumed_run_keeps_its_settings(trained: Path) -> None:
    with pytest.raises(SettingsError, match=r"views was 3 .* cannot change it to 4"):
        pretrain({"views": 4}, trained, resume=True)


def test_a_damaged_checkpoint_falls_back(
    photos: Path, uninterrupted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "damaged"
    pretrain({"data": str(photos), **SETTINGS, "max_steps": 9, "epochs": EPOCHS}, out)
    newest = list_checkpoints(out / "checkpoints")[-1][1]
    newest.write_bytes(newest.read_bytes()[:-1])
    outcome = pretrain({"max_steps": 10}, out, resume=True)
    assert outcome.step == 10
    assert "previous checkpoint" in capsys.readouterr().out.replace("\n", " ")


def test_other_data_is_refused(photos: Path, tmp_path: Path) -> None:
    from tests.conftest import save_images

    data = tmp_path / "data"
    save_images(data, 12)
    pretrain({"data": str(data), **SETTINGS, "max_steps": 1}, tmp_path / "run")
    save_images(data, 14)
    with pytest.raises(UserError, match=r"trained on 12 images, but .* now has 14"):
        pretrain({"max_steps": 2}, tmp_path / "run", resume=True)


def test_a_newer_format_is_refused(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "newer"
    out.mkdir()
    (out / "config.yaml").write_text((trained / "config.yaml").read_text().replace("format: 1", "format: 99"))
    with pytest.raises(UserError, match=r"format 99.*upgrade"):
        pretrain({}, out, resume=True)


def test_two_processes_cannot_train_in_one_folder(trained: Path) -> None:
    with RunFolder(trained).locked(), pytest.raises(UserError, match="another process"):
        pretrain({"epochs": 3}, trained, resume=True)


def test_metrics_are_json_lines(uninterrupted: Path) -> None:
    rows = [json.loads(line) for line in (uninterrupted / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(1, len(rows) + 1))
    assert {"loss", "attraction", "repulsion", "lr", "images_per_second", "data_wait"} <= rows[0].keys()
    assert os.fspath(uninterrupted)
