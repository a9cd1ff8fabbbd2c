"""A run that starts by the default rules stays spread from the first step; with the paper's head it shrinks first."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from cacr.frameworks import FRAMEWORKS
from cacr.losses.engine.pairs import unit
from cacr.training.pretrain import pretrain

pytestmark = pytest.mark.trains

STEPS = 25


def _drawn_photos(path: Path) -> Path:
    """An array of 256 images like photos: smooth, of natural colours, with objects in front."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:32, :32] / 32
    images = []
    for _ in range(256):
        waves = sum(
            rng.normal(size=3) * np.sin(2 * np.pi * (f * (rows * a + columns * b)) + p)[..., None] / f
            for f, a, b, p in zip(
                rng.integers(1, 6, 6), *rng.normal(size=(2, 6)), rng.uniform(0, 6, 6), strict=True
            )
        )
        row, column, size = rng.uniform(0.2, 0.8), rng.uniform(0.2, 0.8), rng.uniform(0.05, 0.3)
        waves[(rows - row) ** 2 + (columns - column) ** 2 < size**2] += rng.normal(size=3) * 2
        images.append(120 + 35 * waves)
    np.savez(path, x=np.clip(np.stack(images), 0, 255).astype(np.uint8))
    return path


def _distances(data: str, out: Path, monkeypatch: pytest.MonkeyPatch, **values: Any) -> list[float]:
    """The mean squared distance of two images, as the loss sees them, at each step."""
    found: list[float] = []
    framework = FRAMEWORKS["in_batch"]
    loss = framework.loss

    def recorded(self: Any, queries: Tensor, *rest: Any) -> dict[str, Tensor]:
        z = unit(queries.detach().double())[0]
        count = len(z)
        found.append(float((2 - 2 * (z @ z.T)).sum()) / (count * (count - 1)))
        return loss(self, queries, *rest)

    monkeypatch.setattr(framework, "loss", recorded)
    settings = {"width": 0.1, "views": 3, "batch_size": 64, "lr": 0.1, "precision": "float32", "t_neg": 4.0}
    measured = {"max_steps": STEPS, "measure_every_epochs": 0, "held_out": 0}
    pretrain({"data": data, "image_size": 32, **settings, **measured, **values}, out)
    return found[-STEPS:]  # before them are those of the probe of its cost


@pytest.mark.parametrize("data", ["digits", "photos"])
def test_embeddings_stay_spread_from_the_first_step(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = "digits" if data == "digits" else f"npz:{_drawn_photos(tmp_path / 'photos.npz')}"
    default = _distances(spec, tmp_path / "default", monkeypatch)
    assert min(default) > 1.7
    paper = {"head": "linear", "weights": "paper", "first_layer": "random"}
    shrunken = _distances(spec, tmp_path / "paper", monkeypatch, **paper)
    assert min(shrunken) < 0.85
