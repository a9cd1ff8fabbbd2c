"""The probes of MoCo, MoCo v3 and HCL, and features that do not fit into memory."""

import math
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from cacr.data import ArraySource
from cacr.encoders import Encoder, load_encoder
from cacr.errors import UserError
from cacr.evaluation import evaluate_run
from cacr.evaluation.data.labelled import LabelledData
from cacr.evaluation.data.task import Task
from cacr.evaluation.engine import streamed
from cacr.evaluation.protocols.linear_hcl import HclLinearSettings, linear_hcl
from cacr.evaluation.protocols.linear_moco import MocoLinearSettings, linear_moco
from cacr.evaluation.protocols.linear_mocov3 import MocoV3LinearSettings, linear_mocov3
from cacr.evaluation.protocols.linear_paper import PaperLinearSettings, linear_paper
from cacr.evaluation.registry import Score
from cacr.features.encode import FeatureLoader, encode, make_rows
from cacr.features.machine import Machine, free_memory
from cacr.views import PRESETS, Augmentation, probe_train
from tests.evaluation.conftest import write_images

pytestmark = pytest.mark.trains


@pytest.fixture(scope="module")
def task(untrained: Path) -> Task:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 150, (60, 3, 18, 18), generator=generator, dtype=torch.uint8)
    labels = torch.arange(60) % 3
    pixels[torch.arange(60), labels] += 60
    train = ArraySource("train", pixels[:40], labels=labels[:40].numpy())
    test = ArraySource("test", pixels[40:], labels=labels[40:].numpy())
    encoder = load_encoder(untrained).train()
    for layer in encoder.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            layer.momentum = None  # statistics of this data, so that features are of ordinary size
    encoder(torch.stack([encoder.preprocess(image) for image in pixels]))
    return Task(encoder.eval(), LabelledData(train, test, "by hand", 3), seed=3)


Trained = list[tuple[float, torch.Tensor]]
"""Test accuracy and weights of the classifier after each epoch."""


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> Trained:
    """What a protocol has trained: weights differ where a few test images are judged alike."""
    seen: Trained = []
    judge = streamed._judge

    def remember(classifier: nn.Linear, *others: Any) -> float:
        seen.append((judge(classifier, *others), classifier.weight.detach().clone()))
        return seen[-1][0]

    monkeypatch.setattr(streamed, "_judge", remember)
    return seen


def _assert_same(score: Score, trained: Trained, expected: Trained) -> None:
    accuracies = [accuracy for accuracy, _ in expected]
    assert score.details["epochs"] == accuracies and score.value == accuracies[-1]
    assert score.details["best"] == max(accuracies)
    for (_, found), (_, weights) in zip(trained, expected, strict=True):
        torch.testing.assert_close(found, weights)


def _literal(
    task: Task,
    view: Augmentation,
    batch: int,
    rates: list[float],
    optimizer: Callable[[nn.Module, float], torch.optim.Optimizer],
    small: bool,
) -> Trained:
    """The protocol written out."""
    torch.manual_seed(3)
    layer = nn.Linear(task.encoder.feature_dim, 3)
    if small:
        nn.init.normal_(layer.weight, std=0.01)
        nn.init.zeros_(layer.bias)
    crops = FeatureLoader(task.encoder, task.data.train, view, Machine(batch), shuffle=True, seed=3)
    labels = torch.from_numpy(task.data.train_labels)
    made, curve = None, []
    for epoch, rate in enumerate(rates):
        made = made or optimizer(layer, rate)
        made.param_groups[0]["lr"] = rate
        for values, index in crops.epoch(epoch):
            made.zero_grad()
            nn.functional.cross_entropy(layer(values.clone()), labels[index]).backward()
            made.step()
        right = layer(task.test.values.clone()).argmax(dim=1) == task.test.labels
        curve.append((right.double().mean().item(), layer.weight.detach().clone()))
    return curve


def _sgd(layer: nn.Module, lr: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(layer.parameters(), lr=lr, momentum=0.9)


CROP = Augmentation(16, scale=(0.08, 1.0), flip=PRESETS["digits"].views[0].flip)


@pytest.mark.parametrize(
    ("protocol", "settings"),
    [
        (linear_moco, MocoLinearSettings()),
        (linear_mocov3, MocoV3LinearSettings()),
        (linear_paper, PaperLinearSettings()),
        (linear_hcl, HclLinearSettings()),
    ],
)
@pytest.mark.parametrize("upright", [True, False])
def test_crops_are_turned_where_those_of_pretraining_were(
    task: Task, monkeypatch: pytest.MonkeyPatch, protocol: Any, settings: Any, upright: bool
) -> None:
    seen: list[Augmentation] = []
    monkeypatch.setattr(
        import_module(protocol.__module__), "streamed_probe", lambda _, view, **__: seen.append(view)
    )
    encoder = Encoder(task.encoder.backbone, replace(task.encoder.info, upright=upright))
    protocol(replace(task, encoder=encoder), settings)
    assert [(view.upright, view.flip) for view in seen] == [(upright, PRESETS["digits"].views[0].flip)]


def test_moco_drops_its_rate_twice(task: Task, trained: Trained) -> None:
    score = linear_moco(task, MocoLinearSettings(lr=50.0, epochs=5, batch_size=16))
    expected = _literal(task, CROP, 16, [50.0, 50.0, 50.0, 5.0, 0.5], _sgd, small=True)
    _assert_same(score, trained, expected)


def test_the_paper_drops_its_rate_twice_and_takes_adam(task: Task, trained: Trained) -> None:
    """Adam with betas 0.5 and 0.999; the rate falls to a fifth after 60 and 80 of 100 epochs."""
    score = linear_paper(task, PaperLinearSettings(lr=0.05, epochs=5, batch_size=16))
    info = task.encoder.info
    view = replace(probe_train(16, info.mean, info.std).views[0], flip=PRESETS["digits"].views[0].flip)

    def adam(layer: nn.Module, lr: float) -> torch.optim.Optimizer:
        return torch.optim.Adam(layer.parameters(), lr=lr, betas=(0.5, 0.999))

    expected = _literal(task, view, 16, [0.05, 0.05, 0.05, 0.01, 0.002], adam, small=False)
    _assert_same(score, trained, expected)


@pytest.mark.parametrize(("encoder", "base"), [("small_alexnet", 0.1), ("vit_tiny_patch16_224", 3.0)])
def test_moco_v3_scales_its_rate_and_lets_it_fall_by_a_cosine(
    task: Task, trained: Trained, encoder: str, base: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task.encoder, "info", replace(task.encoder.info, encoder=encoder))
    score = linear_mocov3(task, MocoV3LinearSettings(epochs=4, batch_size=20))
    rates = [base * 20 / 256 * (1 + math.cos(math.pi * epoch / 4)) / 2 for epoch in range(4)]
    _assert_same(score, trained, _literal(task, CROP, 20, rates, _sgd, small=True))


def test_hcl_learns_on_the_views_of_pretraining(
    task: Task, trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {name: value.clone() for name, value in task.encoder.state_dict().items()}
    score = linear_hcl(task, HclLinearSettings(lr=0.05, epochs=3, batch_size=20))
    view = PRESETS["digits"].resized(16).views[0]

    def adam(layer: nn.Module, lr: float) -> torch.optim.Optimizer:
        return torch.optim.Adam(layer.parameters(), lr=lr, weight_decay=1e-6)

    _assert_same(score, trained, _literal(task, view, 20, [0.05] * 3, adam, small=False))
    judged: list[torch.Tensor] = []
    monkeypatch.setattr(streamed, "_judge", lambda _, values, *others: judged.append(values.clone()) or 0.0)
    linear_hcl(task, HclLinearSettings(lr=0.05, epochs=3, batch_size=20, compat=True))
    for values in judged:  # features of other statistics
        assert (values - task.test.values).abs().max() > 0.1 * task.test.values.abs().max()
    torch.testing.assert_close(task.encoder.state_dict(), before)
    unnamed = Task(task.encoder, task.data)
    monkeypatch.setattr(task.encoder, "info", replace(task.encoder.info, preset=None))
    with pytest.raises(UserError, match="set preset"):
        linear_hcl(unnamed, HclLinearSettings(epochs=1))


def test_features_that_do_not_fit_lie_in_a_file_and_give_the_same_scores(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part, count in (("train", 12), ("test", 6)):
        write_images(tmp_path / "data" / part, per_class=count, seed=count)
    made: list[bool] = []
    features = import_module("cacr.features.encode")  # the package has a function of the same name
    real = features.make_rows

    def watch(count: int, dim: int, *, streamed: bool) -> torch.Tensor:
        made.append(streamed)
        return real(count, dim, streamed=streamed)

    monkeypatch.setattr(features, "make_rows", watch)
    values = {
        "data": str(tmp_path / "data"),
        "workers": 0,
        "k": 3,
        "search": "quick",
        "linear-moco.epochs": 2,
    }
    values["protocol"] = ("knn", "linear", "fewshot", "transfer", "linear-moco", "retrieval")
    held = evaluate_run(run, values)
    assert made and not any(made)
    made.clear()
    in_file = evaluate_run(run, {**values, "memory_gb": 0})
    assert made and all(made)
    assert [result.score for result in in_file] == pytest.approx([result.score for result in held])


def test_a_file_of_features_holds_what_memory_would(task: Task) -> None:
    held = encode(task.encoder, task.data.train, Machine(7))
    in_file = encode(task.encoder, task.data.train, Machine(7, memory=100))
    assert in_file.streamed and not held.streamed
    assert torch.equal(in_file.values, held.values) and torch.equal(in_file.index, held.index)
    assert free_memory() > 2**20
    with pytest.raises(UserError, match="more than is free in memory"):
        make_rows(10**12, 1000, streamed=True)
