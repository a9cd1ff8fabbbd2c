"""Runs whose first layer starts from their images."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from cacr.runs.folder import RunFolder
from cacr.training.pretrain import pretrain
from tests.conftest import TINY

pytestmark = pytest.mark.trains


def _first(folder: Path) -> torch.Tensor:
    return load_file(folder / "encoder.safetensors")["conv1.0.weight"]


def _run(data: Path, out: Path, **values: object) -> RunFolder:
    pretrain({**TINY, "data": str(data), "epochs": 2, "held_out": 0, **values}, out)
    return RunFolder(out)


def test_it_starts_whitened_and_is_trained_on(photos: Path, tmp_path: Path) -> None:
    run = _run(photos, tmp_path / "run")
    start, end = _first(run.start), _first(run.path)
    assert torch.equal(start[0], -start[1])
    assert not torch.equal(start, end)


def test_frozen_stays_as_it_starts(photos: Path, tmp_path: Path) -> None:
    run = _run(photos, tmp_path / "run", first_layer="frozen")
    start = _first(run.start)
    assert torch.equal(start[0], -start[1])
    assert torch.equal(start, _first(run.path))


def test_random_is_random(photos: Path, tmp_path: Path) -> None:
    start = _first(_run(photos, tmp_path / "run", first_layer="random").start)
    assert not torch.allclose(start[0], -start[1])


@pytest.mark.usefixtures("from_server")
def test_two_processes_start_like_one(photos: Path, tmp_path: Path) -> None:
    one, two = (_run(photos, tmp_path / str(n), devices=n, batch_size=8) for n in (1, 2))
    assert torch.equal(_first(one.start), _first(two.start))


def test_weights_from_elsewhere_keep_their_first_layer(photos: Path, tmp_path: Path) -> None:
    first = _run(photos, tmp_path / "first")
    second = _run(photos, tmp_path / "second", init=str(first.path))
    assert torch.equal(_first(first.path), _first(second.start))
