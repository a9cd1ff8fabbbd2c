"""Processes that others start: torchrun's, and those of several machines."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

from tests.conftest import TINY

pytestmark = pytest.mark.trains

SETTINGS = [part for name, value in TINY.items() for part in ("--set", f"{name}={value}")]


def _command(photos: Path, out: Path, *more: str) -> list[str]:
    return ["-m", "cacr", "pretrain", str(photos), "--out", str(out), "--epochs", "1", *more, *SETTINGS]


def _start(arguments: list[str], **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        env={**os.environ, **environment, "OMP_NUM_THREADS": "1"},  # one order of sums
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


def test_every_way_to_start_two_processes_trains_the_same_weights(photos: Path, tmp_path: Path) -> None:
    outs = [tmp_path / name for name in ("here", "torchrun", "machines")]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    machines = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": _free_port()}
    started = [
        _start(_command(photos, outs[0], "--devices", "2")),
        _start([*torchrun, *_command(photos, outs[1])]),
        _start(_command(photos, outs[2], "--set", "nodes=2"), NODE_RANK="0", **machines),
        _start(_command(photos, outs[2], "--set", "nodes=2"), NODE_RANK="1", **machines),
    ]
    printed = [process.communicate()[0] for process in started]

    assert [process.returncode for process in started] == [0] * 4, printed
    expected, *others = (load_file(out / "encoder.safetensors") for out in outs)
    for weights in others:
        assert all(weights[name].equal(expected[name]) for name in expected)
    # the first process alone speaks, and writes the page after the others have gone
    assert [text.count("2 processes on cpu") for text in printed] == [1, 1, 1, 0]
    assert all((out / "report.html").exists() for out in outs)
