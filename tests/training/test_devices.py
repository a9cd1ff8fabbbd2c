"""Two processes on the CPU, started by one command."""

import json
import subprocess
import sys
from pathlib import Path

from safetensors.torch import load_file

from tests.conftest import TINY

SETTINGS = [part for name, value in TINY.items() for part in ("--set", f"{name}={value}")]


def _pretrain(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cacr", "pretrain", *map(str, arguments), "--devices", "2", *SETTINGS]
    return subprocess.run(command, capture_output=True, text=True)


def test_two_processes_train_resume_and_report_errors(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = _pretrain(photos, "--out", out, "--epochs", 1, "--set", "log_every_steps=1")
    assert done.returncode == 0, done.stderr
    assert "2 processes on cpu" in done.stdout and "7 for each query" in done.stdout
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    # 26 images in batches of 8; the last two cannot give both processes two images, so they are left for the
    # next epoch's order
    assert [row["step"] for row in rows] == [0, 1, 2, 3]
    before = load_file(out / "encoder.safetensors")

    more = _pretrain("--out", out, "--resume", "--epochs", 2)
    assert more.returncode == 0, more.stderr
    after = load_file(out / "encoder.safetensors")
    assert any(not before[name].equal(after[name]) for name in before)

    next((out / "checkpoints").iterdir()).parent.rename(out / "elsewhere")
    (out / "checkpoints").mkdir()
    for path in (out / "elsewhere").iterdir():
        (out / "checkpoints" / path.name).write_bytes(b"damaged")
    failed = _pretrain("--out", out, "--resume", "--epochs", 3)
    assert failed.returncode == 2
    assert "every checkpoint" in failed.stderr and "Traceback" not in failed.stderr
