"""One of two processes is killed: the other ends, the message names the rank, and the run goes on from there."""

import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from cacr.training.building.checkpoints import list_checkpoints
from cacr.training.pretrain import pretrain
from tests.conftest import TINY
from tests.started import start_command

pytestmark = pytest.mark.trains

SETTINGS = [part for name, value in TINY.items() for part in ("--set", f"{name}={value}")]


def _workers(parent: int) -> list[int]:
    """The training processes that ``parent`` has started, in the order of their ranks."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            started_by = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if started_by == parent and b"spawn_main" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:  # it has just ended
            continue
    return sorted(found)


def test_killing_one_process_ends_the_other_and_the_run_resumes(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    endless = ["--set", "framework=queue", "--epochs", 1_000_000, "--set", "checkpoint_every_steps=1"]
    process, printed = start_command(
        ["pretrain", photos, "--out", out, "--devices", 2, *endless, *SETTINGS], partial(os.dup2, 1, 2)
    )
    while process.is_alive() and not list_checkpoints(out / "checkpoints"):
        time.sleep(0.01)
    workers = _workers(process.pid)
    assert len(workers) == 2
    # The other rank fails too, for lack of its partner: it waits until the first failure has been noticed.
    os.kill(workers[0], signal.SIGSTOP)
    os.kill(workers[1], signal.SIGKILL)
    while Path(f"/proc/{workers[1]}").exists():
        time.sleep(0.01)
    os.kill(workers[0], signal.SIGCONT)
    told = printed.read()
    process.join()
    assert process.exitcode == 2, told
    assert "rank 1 failed" in told and "--resume" in told
    step = list_checkpoints(out / "checkpoints")[-1][0]
    outcome = pretrain({"devices": 1, "max_steps": step + 1}, out, resume=True)
    assert outcome.status == "finished" and outcome.step == step + 1
