"""A run that was killed or interrupted and then resumed ends with the weights of one that never stopped."""

import json
import os
import shlex
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner, Result

from cacr.cli import app
from cacr.diagnostics.observer import observe
from cacr.errors import SettingsError, UserError
from cacr.runs.folder import RunFolder
from cacr.runs.run import Run
from cacr.training.building.checkpoints import list_checkpoints, load_checkpoint, save_checkpoint
from cacr.training.building.job import Position, Training
from cacr.training.loop import loop
from cacr.training.pretrain import pretrain
from tests.conftest import TINY, files_of, save_images
from tests.started import start_command

pytestmark = pytest.mark.trains

EPOCHS, STEPS = 4, 16  # 28 images in batches of 8: three full batches and one of four, four times
SETTINGS = {**TINY, "epochs": EPOCHS, "batch_size": 8, "log_every_steps": 1, "checkpoint_every_steps": 1}
ENDLESS = {
    **SETTINGS,
    "epochs": 1_000_000,
    "lr": 0.02,
    "t_neg": 2.0,
    "schedule": "constant",
    "warmup_epochs": 0,
    "measure_every_epochs": 1,
}
"""A run that no machine ends before it is stopped, and whose steps do not depend on how many there will be."""


def _arguments(data: Path, out: Path, settings: dict[str, Any]) -> list[str]:
    flags = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    return ["pretrain", str(data), "--out", str(out), *flags]


def _assert_resumes_as_if_never_stopped(data: Path, out: Path, settings: dict[str, Any]) -> None:
    """A few steps more, against a run that makes as many at once."""
    steps = list_checkpoints(out / "checkpoints")[-1][0] + 3
    assert pretrain({"max_steps": steps}, out, resume=True, observe=observe).step == steps
    whole = out.with_name("whole")
    pretrain({"data": str(data), **settings, "max_steps": steps}, whole, observe=observe)
    _assert_equal_runs(whole, out)


@pytest.fixture(scope="module")
def uninterrupted(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("resume") / "whole"
    pretrain({"data": str(photos), **SETTINGS}, out, observe=observe)
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
    figures = [_figures(run) for run in (first, second)]
    assert figures[0] == figures[1]


def _figures(run: Path) -> list[dict[str, float]]:
    """Everything that was logged but the speed."""
    clocks = ("images_per_second", "data_wait")
    return [{name: value for name, value in row.items() if name not in clocks} for row in Run.open(run).rows]


def test_diagnostics_leave_no_trace_in_what_is_learned(
    photos: Path, uninterrupted: Path, tmp_path: Path
) -> None:
    pretrain({"data": str(photos), **SETTINGS}, tmp_path / "unobserved")
    measured = [row for row in _figures(uninterrupted) if "effective_rank" in row]
    assert len(measured) > 1
    observed, plain = (
        load_file(run / "encoder.safetensors") for run in (uninterrupted, tmp_path / "unobserved")
    )
    assert all(torch.equal(observed[name], plain[name]) for name in plain)
    losses = [
        [row["loss"] for row in _figures(run) if "loss" in row]
        for run in (uninterrupted, tmp_path / "unobserved")
    ]
    assert losses[0] == losses[1]


@pytest.mark.parametrize("kill_after_step", [1, 6])
def test_killed_and_resumed_equals_uninterrupted(photos: Path, tmp_path: Path, kill_after_step: int) -> None:
    out = tmp_path / "killed"
    process, printed = start_command(_arguments(photos, out, ENDLESS))
    while process.is_alive():
        steps = [step for step, _ in list_checkpoints(out / "checkpoints")]
        if steps and steps[-1] >= kill_after_step:
            break
        time.sleep(0.002)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL, printed.read()
    _assert_resumes_as_if_never_stopped(photos, out, ENDLESS)


@pytest.mark.parametrize("framework", ["queue", "momentum"])
def test_a_t_neg_that_follows_the_spread_resumes_to_the_bit(
    framework: str, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of CACR, in frameworks with a momentum encoder; the run is stopped in the middle of its second epoch."""
    values = {
        "data": str(photos),
        **SETTINGS,
        "framework": framework,
        "t_neg_schedule": "spread",
        "epochs": 3,
    }
    pretrain(values, tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(loop, "_agreed", lambda fabric, stop, step: step == 6)
        assert pretrain(values, tmp_path / "stopped").status == "interrupted"
    assert pretrain({}, tmp_path / "stopped", resume=True).status == "finished"
    _assert_equal_runs(tmp_path / "whole", tmp_path / "stopped")


@pytest.mark.parametrize(
    ("number", "sizes", "devices"),
    [
        pytest.param(signal.SIGINT, (40,), 1, id="control-c"),
        pytest.param(signal.SIGTERM, (40, 44), 1, id="sigterm-workers"),
        pytest.param(signal.SIGINT, (40,), 2, id="control-c-two-processes", marks=pytest.mark.slow),
    ],
)
def test_a_signal_saves_and_says_how_to_go_on(
    number: signal.Signals, sizes: tuple[int, ...], devices: int, tmp_path: Path
) -> None:
    """The signal goes to the whole group, as a terminal or a cluster sends it: loader processes get it too."""
    data, out = tmp_path / "data", tmp_path / "interrupted"
    for size in sizes:
        save_images(data / f"of{size}", 26 // len(sizes), size=size)
    settings = {**ENDLESS, "checkpoint_every_steps": 10**9, "workers": len(sizes) - 1, "devices": devices}
    process, printed = start_command(_arguments(data, out, settings))
    while process.is_alive() and not (
        (out / "metrics.jsonl").exists() and (out / "metrics.jsonl").read_text()
    ):
        time.sleep(0.002)
    os.killpg(process.pid, number)
    output = printed.read()
    process.join()
    assert process.exitcode == 130, output
    assert f"cacr pretrain --out {out} --resume" in " ".join(output.split())
    _assert_resumes_as_if_never_stopped(data, out, settings)


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


@pytest.mark.parametrize(
    ("at_step", "told"),
    [
        (3, "no checkpoint had been written yet, all steps are lost; start from the beginning with: "),
        (7, "the checkpoint of step 4 is kept, any later steps are lost; continue with: "),
    ],
)
def test_a_second_control_c_says_what_is_lost_and_the_command_that_goes_on(
    at_step: int,
    told: str,
    photos: Path,
    uninterrupted: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first one would have ended the run after its step; the second is raised in the middle of one."""
    out = tmp_path / "my runs" / "it's 1"
    step = loop.take_step

    def interrupted(job: Training, position: Position, *rest: Any) -> float:
        if position.step + 1 == at_step:
            raise KeyboardInterrupt
        return step(job, position, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "take_step", interrupted)
        result = _run(*_arguments(photos, out, {**SETTINGS, "checkpoint_every_steps": 4}))
    assert result.exit_code == 130
    (line,) = [line for line in result.output.splitlines() if line.startswith("interrupted: ")]
    assert line.startswith(f"interrupted: {told}")
    again = shlex.split(line.removeprefix(f"interrupted: {told}"))
    assert again[0] == "cacr" and _run(*again[1:]).exit_code == 0
    _assert_equal_runs(uninterrupted, out)


def test_control_c_before_training_says_to_start_again(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    command = _arguments(photos, tmp_path / "run", {**SETTINGS, "max_steps": 1})
    with monkeypatch.context() as patch:
        patch.setattr("cacr.api.train_encoder", interrupted)
        result = _run(*command)
    assert result.exit_code == 130
    assert "training had not started; run the same command again" in result.output
    assert _run(*command).exit_code == 0


def test_resuming_a_finished_run_does_nothing(trained: Path) -> None:
    before = files_of(trained)
    assert pretrain({}, trained, resume=True).status == "already finished"
    assert files_of(trained) == before


def test_more_epochs_follow_the_schedule_of_the_longer_run(photos: Path, tmp_path: Path) -> None:
    short, long = {**SETTINGS, "epochs": 1}, {**SETTINGS, "epochs": 2}
    pretrain({"data": str(photos), **short}, tmp_path / "extended")
    pretrain({"epochs": 2}, tmp_path / "extended", resume=True)
    pretrain({"data": str(photos), **long}, tmp_path / "long")
    extended, whole = (Run.open(tmp_path / name).rows for name in ("extended", "long"))
    assert [row["step"] for row in extended] == [row["step"] for row in whole]
    after = len(whole) // 2
    assert [row["lr"] for row in extended[after:]] == [row["lr"] for row in whole[after:]]
    assert [row["lr"] for row in extended[:after]] != [row["lr"] for row in whole[:after]]


def test_a_resumed_run_keeps_its_settings(trained: Path) -> None:
    with pytest.raises(SettingsError, match=r"views was 3 .* cannot be changed to 4"):
        pretrain({"views": 4}, trained, resume=True)


def test_a_damaged_checkpoint_falls_back_and_the_run_ends_with_the_same_bits(
    photos: Path,
    uninterrupted: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "damaged"
    with monkeypatch.context() as patch:
        patch.setattr(loop, "_agreed", lambda fabric, stop, step: step == 9)
        assert pretrain({"data": str(photos), **SETTINGS}, out, observe=observe).status == "interrupted"
    (before, _), (step, newest) = list_checkpoints(out / "checkpoints")
    assert (before, step) == (8, 9)
    newest.write_bytes(newest.read_bytes()[:-1])
    capsys.readouterr()
    assert pretrain({}, out, resume=True, observe=observe).step == STEPS
    assert "usingthepreviouscheckpoint" in "".join(capsys.readouterr().out.split())
    _assert_equal_runs(uninterrupted, out)


def test_a_run_is_resumed_after_its_data_moved_and_without_its_initial_weights(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_images(tmp_path / "data", 12)
    shutil.copy(trained / "encoder.safetensors", tmp_path / "start.safetensors")
    shutil.copy(trained / "encoder.json", tmp_path / "start.json")
    monkeypatch.chdir(tmp_path)
    values = {"data": "data", "init": "start.safetensors", **SETTINGS, "max_steps": 1}
    pretrain(values, tmp_path / "run")
    (tmp_path / "start.safetensors").unlink()
    monkeypatch.chdir("/")
    assert pretrain({"max_steps": 2}, tmp_path / "run", resume=True).step == 2
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    moved = {"data": str(tmp_path / "elsewhere"), "max_steps": 3}
    assert pretrain(moved, tmp_path / "run", resume=True).step == 3


def test_a_run_with_lists_is_resumed_from_any_folder(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of files are relative to the folder that the run was started from."""
    first, elsewhere = tmp_path / "first", tmp_path / "elsewhere"
    shutil.copytree(photos, first / "photos")
    elsewhere.mkdir()
    names = [path.name for path in sorted((first / "photos").iterdir())]
    (first / "not.csv").write_text("\n".join(["path", *names[:2]]))
    (first / "labels.csv").write_text("\n".join(["path,label", *(f"{name},{name[-5]}" for name in names)]))
    given = {"images": "except:not.csv", "labels": Path("~/labels.csv")}
    monkeypatch.setenv("HOME", str(first))
    monkeypatch.chdir(first)
    pretrain({"data": "images:photos", **SETTINGS, **given, "max_steps": 2}, tmp_path / "run")
    assert pretrain({**given, "max_steps": 3}, tmp_path / "run", resume=True).step == 3
    monkeypatch.chdir(elsewhere)
    assert pretrain({"max_steps": 4}, tmp_path / "run", resume=True).step == 4
    settings = Run.open(tmp_path / "run").settings
    assert settings.data == f"images:{first / 'photos'}"
    assert settings.images == f"except:{first / 'not.csv'}" and settings.labels == first / "labels.csv"
    with pytest.raises(SettingsError, match="images was"):
        pretrain({"images": "except:other.csv"}, tmp_path / "run", resume=True)


def test_a_run_limited_by_steps_has_the_schedule_of_its_length(photos: Path, tmp_path: Path) -> None:
    values = {"data": str(photos), **TINY, "epochs": 100, "max_steps": 8, "log_every_steps": 1, "lr": 0.5}
    pretrain(values, tmp_path / "run")
    rates = [row["lr"] for row in Run.open(tmp_path / "run").rows]
    assert max(rates) > 0.45 and rates[-1] < 0.05


def test_other_data_is_refused(tmp_path: Path) -> None:
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


def test_a_checkpoint_of_another_version_is_refused(trained: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    state = load_checkpoint(list_checkpoints(run / "checkpoints")[-1][1])
    state["method"]["pointer"] = torch.zeros(())
    save_checkpoint(run / "checkpoints", state["step"] + 1, state)
    with pytest.raises(UserError, match="another version of cacr wrote it"):
        pretrain({"epochs": 3}, run, resume=True)


def test_two_processes_cannot_train_in_one_folder(trained: Path) -> None:
    with RunFolder(trained).locked(), pytest.raises(UserError, match="another process"):
        pretrain({"epochs": 3}, trained, resume=True)


def test_metrics_are_json_lines(uninterrupted: Path) -> None:
    rows = [json.loads(line) for line in (uninterrupted / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(STEPS + 1))  # step 0: measured before the first one
    assert {"loss", "attraction", "repulsion", "lr", "images_per_second", "data_wait"} <= rows[1].keys()
