"""LARS against its equations, and what a step of training does with its gradients."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from cacr.training.building.checkpoints import load_latest
from cacr.training.loop import inputs
from cacr.training.optimization.lars import LARS
from cacr.training.pretrain import pretrain
from tests.conftest import TINY

pytestmark = pytest.mark.trains


def test_lars_equals_its_equations_and_spares_biases() -> None:
    torch.manual_seed(0)
    weight, bias, zero = torch.randn(3, 4), torch.randn(3), torch.zeros(2, 2)
    trained = [torch.nn.Parameter(x.clone()) for x in (weight, bias, zero)]
    optimizer = LARS(trained, lr=0.7, momentum=0.9, weight_decay=0.3, trust=0.02)
    speed = [torch.zeros_like(x) for x in (weight, bias, zero)]
    for step in range(3):
        gradients = [torch.randn_like(x) for x in trained]
        for w, g in zip(trained, gradients, strict=True):
            w.grad = g.clone()
        optimizer.param_groups[0]["lr"] = 0.7 - 0.1 * step
        optimizer.step()
        update = gradients[0] + 0.3 * weight
        rate = 0.02 * weight.square().sum().sqrt() / update.square().sum().sqrt()
        speed[0] = 0.9 * speed[0] + rate * update
        speed[1] = 0.9 * speed[1] + gradients[1]
        rate = 0.02 * zero.norm() / (gradients[2] + 0.3 * zero).norm() if zero.norm() > 0 else 1.0
        speed[2] = 0.9 * speed[2] + rate * (gradients[2] + 0.3 * zero)
        weight, bias, zero = (
            w - (0.7 - 0.1 * step) * v for w, v in zip((weight, bias, zero), speed, strict=True)
        )
    for w, expected in zip(trained, (weight, bias, zero), strict=True):
        torch.testing.assert_close(w.detach(), expected)


Move = Callable[..., Tensor]


@pytest.fixture
def move(photos: Path, tmp_path: Path) -> Move:
    """How far one step of plain SGD with rate 1 moves all weights, by the settings beside it."""
    plain = {**TINY, "max_steps": 1, "optimizer": "sgd", "momentum": 0.0, "weight_decay": 0.0}
    plain |= {"data": str(photos), "schedule": "constant", "warmup_epochs": 0}

    def weights(name: str, **settings: Any) -> Tensor:
        pretrain({**plain, **settings}, tmp_path / name)
        state = load_latest(tmp_path / name / "checkpoints", warn=pytest.fail)
        assert state is not None
        learned = [value for key, value in state["method"].items() if key.endswith(("weight", "bias"))]
        return torch.cat([value.flatten() for value in learned])

    start = weights("start", lr=1e-30)
    return lambda name, **settings: weights(name, lr=1.0, **settings) - start


def test_gradients_are_clipped_to_the_norm_asked_for(move: Move) -> None:
    free = move("free")
    assert free.norm() > 0.01
    for bound in (0.001, 0.002):
        clipped = move(f"clipped-{bound}", clip_grad=bound)
        assert clipped.norm().item() == pytest.approx(bound, rel=1e-3)
        torch.testing.assert_close(clipped / bound, free / free.norm(), rtol=0, atol=1e-3)


def test_gradients_of_accumulated_batches_are_averaged(move: Move, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one batch given three times they are those of the batch."""
    made: list[list[Tensor]] = []
    make_views = inputs.make_views

    def first(*arguments: Any) -> list[Tensor]:
        made.append(make_views(*arguments))
        return made[0]

    monkeypatch.setattr(inputs, "make_views", first)
    once, calls = move("once"), len(made)
    thrice = move("thrice", accumulate=3)
    assert (calls, len(made)) == (1, 4)
    torch.testing.assert_close(thrice, once, rtol=0.01, atol=1e-5)
