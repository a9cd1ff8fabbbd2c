"""Two processes on the CPU, started by one command."""

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file

from tests.conftest import TINY, Run, refused

pytestmark = pytest.mark.trains

SETTINGS = [part for name, value in TINY.items() for part in ("--set", f"{name}={value}")]
TWO = ["--devices", 2, *SETTINGS]


def test_two_processes_train_resume_and_report_errors(run: Run, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    code, text = run("pretrain", photos, "--out", out, "--epochs", 1, "--set", "log_every_steps=1", *TWO)
    assert code == 0, text
    assert "2 processes on cpu" in text and "7 for each query" in text
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    # 26 images in batches of 8; the last two cannot give both processes two images, so they are left for the
    # next epoch's order
    assert [row["step"] for row in rows] == [0, 1, 2, 3]
    before = load_file(out / "encoder.safetensors")

    code, text = run("pretrain", "--out", out, "--resume", "--epochs", 2, *TWO)
    assert code == 0, text
    after = load_file(out / "encoder.safetensors")
    assert any(not before[name].equal(after[name]) for name in before)

    next((out / "checkpoints").iterdir()).parent.rename(out / "elsewhere")
    (out / "checkpoints").mkdir()
    for path in (out / "elsewhere").iterdir():
        (out / "checkpoints" / path.name).write_bytes(b"damaged")
    refused(run, ["pretrain", "--out", out, "--resume", "--epochs", 3, *TWO], "every checkpoint")
