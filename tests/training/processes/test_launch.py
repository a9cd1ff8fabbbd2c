"""Two processes on the CPU: started by one command, by torchrun, and as those of two machines."""

import json
import os
import shutil
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.conftest import TINY, Once, Run, refused
from tests.started import start_command

pytestmark = pytest.mark.trains

SETTINGS = [part for name, value in TINY.items() for part in ("--set", f"{name}={value}")]
SETTINGS += ["--set", "log_every_steps=1"]
OUTS = ("here", "torchrun", "machines")


def _arguments(photos: Path, out: Path, *more: object) -> list[str]:
    return [str(part) for part in ("pretrain", photos, "--out", out, "--epochs", 1, *more, *SETTINGS)]


def _torchrun(arguments: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _prepare(environment: dict[str, str]) -> None:
    """What a shell would set for a command; one thread, and so one order of sums."""
    os.environ.update(environment, OMP_NUM_THREADS="1")
    torch.set_num_threads(1)


def _free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


@pytest.fixture(scope="module")
def runs(once: Once, photos: Path) -> Path:
    """A run of each way to start two processes, and in ``printed.json`` what each of four commands printed.

    Those of torchrun come first.
    """

    def build(folder: Path) -> None:
        folder.mkdir()
        here, torchrun, machines = (folder / name for name in OUTS)
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": _free_port()}
        elastic = _torchrun(["-m", "cacr", *_arguments(photos, torchrun)])
        commands = [
            start_command(_arguments(photos, here, "--devices", 2), partial(_prepare, {})),
            *(
                start_command(
                    _arguments(photos, machines, "--set", "nodes=2"),
                    partial(_prepare, {**meeting, "NODE_RANK": str(rank)}),
                )
                for rank in range(2)
            ),
        ]
        printed = [elastic.communicate()[0], *(text.read() for _, text in commands)]
        for process, _ in commands:
            process.join()
        codes = [elastic.returncode, *(process.exitcode for process, _ in commands)]
        assert codes == [0] * 4, printed
        (folder / "printed.json").write_text(json.dumps(printed))

    return once("launched", build)


def test_every_way_to_start_two_processes_trains_the_same_weights(runs: Path) -> None:
    expected, *others = (load_file(runs / name / "encoder.safetensors") for name in OUTS)
    for weights in others:
        assert all(weights[name].equal(expected[name]) for name in expected)
    # the first process alone speaks, and writes the page after the others have gone
    printed = json.loads((runs / "printed.json").read_text())
    assert [text.count("2 processes on cpu") for text in printed] == [1, 1, 1, 0]
    assert "7 per query" in printed[1]
    assert all((runs / name / "report.html").exists() for name in OUTS)
    rows = [json.loads(line) for line in (runs / "here" / "metrics.jsonl").read_text().splitlines()]
    # 28 images in batches of 8: the last four are half of a batch, two for each process
    assert [row["step"] for row in rows] == [0, 1, 2, 3, 4]


@pytest.mark.usefixtures("from_server")
def test_two_processes_resume_and_report_errors(run: Run, runs: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(runs / "here", tmp_path / "run"))
    again = ["pretrain", "--out", out, "--resume", "--devices", 2, *SETTINGS]
    before = load_file(out / "encoder.safetensors")
    code, text = run(*again, "--epochs", 2)
    assert code == 0, text
    after = load_file(out / "encoder.safetensors")
    assert any(not before[name].equal(after[name]) for name in before)
    for path in (out / "checkpoints").iterdir():
        path.write_bytes(b"damaged")
    refused(run, [*again, "--epochs", 3], "all checkpoints")
