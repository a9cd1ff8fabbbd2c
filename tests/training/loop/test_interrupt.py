"""Ctrl-C while the main thread is in a computation that does not come back to Python."""

import hashlib
import os
import shlex
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cacr.training.building.checkpoints import list_checkpoints
from cacr.training.building.job import Position, Training
from cacr.training.loop import loop
from cacr.training.loop.interrupt import Interrupt
from cacr.training.loop.signals import SignalWatch
from tests.conftest import TINY, Run
from tests.started import start_command


def _get_stuck(at_step: int) -> None:
    """Let the training of this process compute for minutes in one of its steps."""
    step = loop.take_step

    def stuck(job: Training, position: Position, *rest: Any) -> float:
        if position.step + 1 == at_step:
            print("stuck", flush=True)
            hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)  # without a line of Python
            raise AssertionError("the computation was waited for")
        return step(job, position, *rest)

    loop.take_step = stuck


@pytest.mark.trains
@pytest.mark.parametrize(
    ("at_step", "warned", "told"),
    [
        (3, "all steps are lost", "no checkpoint had been written yet, all steps are lost; start from the"),
        (7, "the steps after checkpoint 4 are lost", "the checkpoint of step 4 is kept, any later steps are"),
    ],
)
def test_control_c_is_answered_at_once_and_a_second_one_ends(
    at_step: int, warned: str, told: str, run: Run, photos: Path, tmp_path: Path
) -> None:
    out = tmp_path / "my run"
    settings = {**TINY, "epochs": 2, "checkpoint_every_steps": 4}
    flags = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    arguments = ["pretrain", photos, "--out", out, *flags]
    process, lines = start_command(arguments, partial(_get_stuck, at_step))
    assert any(line == "stuck\n" for line in lines)
    os.killpg(process.pid, signal.SIGINT)
    answer = next(lines)
    os.killpg(process.pid, signal.SIGINT)
    rest = lines.read()
    process.join()
    assert process.exitcode == 130
    assert answer == f"finishing this step, saving ... (Ctrl-C again ends at once, and {warned})\n"
    assert rest.strip().startswith(f"interrupted: {told}"), rest
    again = shlex.split(rest.strip().partition(" with: ")[2])
    assert again == ["cacr", "pretrain", "--out", str(out), "--resume"]
    assert run(*again[1:])[0] == 0
    assert list_checkpoints(out / "checkpoints")[-1][0] == 8


@pytest.fixture
def own_ctrl_c() -> Iterator[None]:
    """Python's own answer to Ctrl-C: a process that was started in the background of a shell ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("own_ctrl_c")
def test_the_first_signal_asks_and_is_answered_once() -> None:
    answers: list[str] = []
    with Interrupt(lambda: answers.append("saving")) as interrupt:
        assert not interrupt.requested
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.requested
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert answers == ["saving"]
    with pytest.raises(KeyboardInterrupt):  # outside, all is as it was
        os.kill(os.getpid(), signal.SIGINT)


def test_watches_hear_all_signals_and_pass_them_on() -> None:
    outer: list[int] = []
    inner: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: None)
    try:
        with SignalWatch(outer.append):
            with SignalWatch(inner.append):
                os.kill(os.getpid(), signal.SIGUSR1)
            os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert inner == [signal.SIGUSR1] and outer == [signal.SIGUSR1] * 2
    assert signal.set_wakeup_fd(-1) == -1
