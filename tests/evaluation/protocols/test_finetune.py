"""Fine-tuning of whole networks."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cacr.data import ArraySource, Source
from cacr.encoders import EncoderInfo, build_encoder
from cacr.errors import UserError
from cacr.evaluation.data.labelled import LabelledData
from cacr.evaluation.data.task import Task
from cacr.evaluation.dry_run import describe_evaluation
from cacr.evaluation.engine import finetuning, network_learner
from cacr.evaluation.engine.finetuning import FINETUNE_RECIPES, Length, fine_tune, make_optimizer
from cacr.evaluation.engine.network import Network, scores_of, train_network
from cacr.evaluation.engine.network_learner import NetworkLearner
from cacr.evaluation.engine.tuning import Setting
from cacr.evaluation.protocols.fewshot import FewShotSettings
from cacr.evaluation.protocols.finetune import FinetuneSettings, finetune, recipe_for
from cacr.evaluation.protocols.transfer import TransferSettings
from cacr.evaluation.registry import PROTOCOLS
from cacr.randomness import generator
from cacr.training.optimization.schedules import Schedule
from cacr.views import Augmentation

pytestmark = pytest.mark.trains


@pytest.fixture(scope="module")
def task() -> Task:
    """Bright quarters of grey images, which random features do not tell apart at once."""
    torch.manual_seed(0)
    encoder = build_encoder("small_alexnet", image_size=16, width=0.05)
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 140, (72, 3, 16, 16), generator=generator, dtype=torch.uint8)
    labels = torch.arange(72) % 2
    for number, label in enumerate(labels):
        pixels[number, :, 8 * label : 8 * label + 8] += 60
    train = ArraySource("train", pixels[:32], labels=labels[:32].numpy())
    test = ArraySource("test", pixels[32:], labels=labels[32:].numpy())
    return Task(encoder.eval(), LabelledData(train, test, "by hand", 2), seed=1)


def test_a_network_learns_and_the_encoder_stays_as_it_is(task: Task) -> None:
    before = {name: value.clone() for name, value in task.encoder.state_dict().items()}
    settings = FinetuneSettings(lrs=(1e-6, 0.3), epochs=2, min_steps=40, batch_size=16)
    score = finetune(task, settings)
    assert score.details["lr"] == 0.3 and set(score.details["validation"]) == {"1e-06, 0.0001", "0.3, 0.0001"}
    assert score.value >= 0.9
    torch.testing.assert_close(task.encoder.state_dict(), before)
    assert not any(parameter.grad is not None for parameter in task.encoder.parameters())


def test_choices_do_not_depend_on_test_labels(task: Task) -> None:
    wrong = ArraySource("test", task.data.test.images, labels=np.zeros(40, dtype=np.int64))
    other = Task(task.encoder, replace(task.data, test=wrong), seed=1)
    settings = FinetuneSettings(
        lrs=(0.01, 0.3), epochs=1, min_steps=4, batch_size=16, labels_per_class=6, draws=2
    )
    honest, fooled = finetune(task, settings), finetune(other, settings)
    assert honest.details["validation"] == fooled.details["validation"]
    assert honest.details["lr"] == fooled.details["lr"] and len(honest.details["lr"]) == 2
    assert honest.spread == pytest.approx(np.std(honest.details["scores"], ddof=1))


def test_the_searches_of_fine_tuning(task: Task) -> None:
    pytest.importorskip("optuna")
    short = {"epochs": 1, "min_steps": 1, "batch_size": 16}
    quick = finetune(task, FinetuneSettings(search="quick", **short))
    assert quick.details["lr"] == 0.03 and quick.details["validation"] == {} and quick.notes
    drawn = finetune(task, FinetuneSettings(search="optuna", trials=3, weight_decays=(1e-5, 1e-3), **short))
    assert len(drawn.details["validation"]) == 3
    assert 0.01 <= drawn.details["lr"] <= 0.1 and 1e-5 <= drawn.details["weight_decay"] <= 1e-3


def test_the_recipe_follows_the_encoder() -> None:
    small = build_encoder("small_alexnet", image_size=16, width=0.05).info
    assert recipe_for(small, FinetuneSettings()) == FINETUNE_RECIPES["resnet"]
    vit = replace(small, encoder="vit_small_patch16_224")
    assert recipe_for(vit, FinetuneSettings()) == FINETUNE_RECIPES["vit"]
    assert recipe_for(vit, FinetuneSettings(recipe="resnet", lrs=(1.0,))).lrs == (1.0,)
    assert recipe_for(small, FinetuneSettings(layer_decay=0.5)).layer_decay == 0.5


def test_layers_near_the_image_learn_more_slowly() -> None:
    encoder = build_encoder("vit_tiny_patch16_224", image_size=32)
    network = Network(encoder, 3, 0, torch.device("cpu"))
    optimizer = make_optimizer(network, FINETUNE_RECIPES["vit"], 0.1, 0.05)
    assert isinstance(optimizer, torch.optim.AdamW)
    groups = {id(parameter): group for group in optimizer.param_groups for parameter in group["params"]}
    assert set(groups) == {id(parameter) for parameter in network.parameters()}
    blocks = [groups[id(block.attn.qkv.weight)] for block in network.backbone.blocks]
    assert groups[id(network.head.weight)]["lr"] == 0.1
    rates = [group["lr"] for group in blocks]
    assert all(later == pytest.approx(earlier / 0.75) for earlier, later in pairwise(rates))
    assert rates[-1] < 0.1 and groups[id(network.backbone.cls_token)]["lr"] < rates[0]
    assert blocks[0]["weight_decay"] == 0.05
    for parameter in (network.head.bias, network.backbone.pos_embed, network.backbone.blocks[0].norm1.weight):
        assert groups[id(parameter)]["weight_decay"] == 0
    plain = make_optimizer(
        Network(build_encoder("small_alexnet", image_size=16, width=0.05), 3, 0, torch.device("cpu")),
        FINETUNE_RECIPES["resnet"],
        0.1,
        1e-4,
    )
    assert isinstance(plain, torch.optim.SGD) and {group["lr"] for group in plain.param_groups} == {0.1}


def test_the_first_statistics_are_those_of_the_features(task: Task) -> None:
    network = Network(task.encoder, 2, 0, torch.device("cpu"))
    images = torch.stack([task.encoder.preprocess(image) for image in task.data.train.images])
    network.begin_at(iter(images.split(10)))
    features = task.encoder(images).detach()
    torch.testing.assert_close(network.norm.running_mean, features.mean(dim=0))
    torch.testing.assert_close(network.norm.running_var, features.var(dim=0, correction=0))
    assert not list(network.norm.parameters())


def test_the_protocol_trains_networks_like_plain_sgd(task: Task) -> None:
    """One setting of the few-shot search, against a loop written out."""
    learner = NetworkLearner(task, np.arange(32), lambda: None)
    found: list[torch.Tensor] = []
    learner._metric = lambda scores, labels: found.append(scores) or 0.0  # type: ignore[func-returns-value]
    setting, rows = Setting(0.05, 0.01), np.arange(20)
    assert learner.final(setting, rows, 3, seed=2) == [0.0]
    network = Network(task.encoder, 2, 2, torch.device("cpu"))
    pixels = torch.stack([task.encoder.preprocess(image) for image in task.data.train.images])
    labels = torch.from_numpy(task.data.train_labels)
    network.begin_at([pixels[:20]])
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)
    for epoch in range(3):
        network.train()
        order = torch.randperm(20, generator=generator("shots", 2, epoch))
        loss = torch.nn.functional.cross_entropy(network(pixels[:20][order]), labels[:20][order])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    test = torch.stack([task.encoder.preprocess(image) for image in task.data.test.images])
    expected, _ = scores_of(network, [(test, torch.from_numpy(task.data.test_labels))])
    torch.testing.assert_close(found[0], expected, rtol=0, atol=1e-3 * expected.abs().max().item())


def test_a_training_that_diverges_is_given_up(task: Task) -> None:
    learner = NetworkLearner(task, np.arange(32), lambda: None)
    (curve,) = learner.validate([Setting(1e9, 1e6)], np.arange(20), np.arange(20, 32), 3, seed=0)
    assert len(curve) == 3 and curve[-1] == 0
    network = Network(task.encoder, 2, 0, torch.device("cpu"))
    steps: list[int] = []
    images = torch.full((4, 3, 16, 16), float("nan"))
    train_network(
        network,
        torch.optim.SGD(network.parameters(), lr=0.1),
        lambda epoch: [(images, torch.zeros(4, dtype=torch.int64))],
        epochs=5,
        per_epoch=1,
        after_epoch=lambda: steps.append(1),
    )
    assert steps == []


def test_few_shot_fine_tuning(task: Task) -> None:
    settings = FewShotSettings(search="quick", epochs=1, final_epochs=2, draws=2)
    seen: list[tuple[int, int]] = []
    watched = Task(task.encoder, task.data, seed=1, progress=lambda *now: seen.append(now))
    score = PROTOCOLS["fewshot-finetune"](watched, settings)
    assert len(score.details["scores"]) == 2 and score.details["settings_tried"] == [9, 9]
    assert seen[-1] == (22, 22)


def test_images_that_are_decoded_in_every_epoch_are_learned_like_those_that_are_held(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All images are one batch, so that their order does not matter but for rounding."""

    def curve() -> list[float]:
        learner = NetworkLearner(task, np.arange(32), lambda: None)
        return learner.final(Setting(0.05, 0.01), np.arange(24), 6, seed=2)

    held = curve()
    monkeypatch.setattr(network_learner, "HELD_BYTES", 0)
    assert curve() == pytest.approx(held, abs=1 / 40)  # one of the test images
    whole = PROTOCOLS["transfer-finetune"](task, TransferSettings(search="quick", epochs=1, final_epochs=1))
    assert whole.details["settings_tried"] == 9


def test_deit_trains_with_all_its_means_and_the_same_way_every_time(task: Task) -> None:
    settings = FinetuneSettings(
        recipe="deit", search="quick", lrs=(0.05,), epochs=1, min_steps=100, batch_size=16
    )
    recipe = recipe_for(task.encoder.info, settings)
    assert recipe.regularisation == FINETUNE_RECIPES["deit"].regularisation
    first, second = finetune(task, settings), finetune(task, settings)
    assert first.details == second.details
    assert first.value >= 0.75
    assert any("no residual paths" in note for note in first.notes)


def test_deit_has_bicubic_crops_a_plain_classifier_and_a_last_rate(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the three differs from the other recipes."""
    crops: list[str] = []
    trained: list[tuple[Network, float]] = []

    class Watched(finetuning.ImageLoader):
        def __init__(self, info: EncoderInfo, source: Source, view: Augmentation, *more: Any, **named: Any):
            crops.append(view.interpolation)
            super().__init__(info, source, view, *more, **named)

    def note(
        network: Network, *unused: Any, epochs: int, per_epoch: int, rate: Schedule, **named: Any
    ) -> None:
        trained.append((network, rate(epochs * per_epoch)))

    monkeypatch.setattr(finetuning, "ImageLoader", Watched)
    monkeypatch.setattr(finetuning, "train_network", note)
    length = Length(epochs=1, min_steps=10, warmup=0.1, batch_size=16)
    for name in ("deit", "vit"):
        recipe = FINETUNE_RECIPES[name]
        fine_tune(task, recipe, length, Setting(1e-4, 0.05), np.arange(32), 0, None)
    (deit, last), (vit, zero) = trained
    assert (crops[0], deit.norm, last) == ("bicubic", None, pytest.approx(0.02))
    assert isinstance(vit.norm, torch.nn.BatchNorm1d) and zero == pytest.approx(0)
    assert "bicubic" not in crops[1:]


def test_settings_of_deit_can_be_given_one_by_one(task: Task) -> None:
    settings = FinetuneSettings(recipe="deit", mixup=0, augment="none", layer_decay=0.65)
    recipe = recipe_for(task.encoder.info, settings)
    assert (recipe.layer_decay, recipe.regularisation.mixup, recipe.regularisation.augment) == (0.65, 0, "")
    assert recipe.regularisation.cutmix == 1.0
    with pytest.raises(ValueError, match="RandAugment in timm's notation"):
        FinetuneSettings(augment="rnd-m9")


def test_rand_augment_refuses_images_that_it_cannot_change(task: Task) -> None:
    deep = ArraySource("deep", task.data.train.images.to(torch.uint16), labels=task.data.train.labels)
    other = Task(task.encoder, replace(task.data, train=deep), seed=1)
    with pytest.raises(UserError, match="augment=none"):
        finetune(other, FinetuneSettings(recipe="deit"))


def test_a_dry_run_says_what_would_be_trained_and_trains_nothing(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finetuning, "train_network", lambda *_, **__: pytest.fail("something was trained"))
    settings = {"recipe": "deit", "epochs": 150, "finetune.batch_size": 1000, "search": "quick"}
    asked = {"data": "digits", "protocol": "knn,finetune", **settings}
    text = "\n".join(describe_evaluation(trained, asked))
    assert "4,000 training and 1,000 test images, 10 classes" in text
    assert "AdamW, rates 0.000488281, 0.000976562, 0.00195312 for 1,000 images" in text
    assert "mixup 0.8, cutmix 1, rand-m9-mstd0.5-inc1, erasing 0.25, drop path 0.1" in text
    assert "1 settings; then 600 steps, 150 epochs of all 4,000 images" in text
    with pytest.raises(UserError, match="one data set"):
        describe_evaluation(trained, {"data": "suite:x", "protocol": "finetune"})
    with pytest.raises(UserError, match="transfer cannot measure encoder: view=elevater needs"):
        describe_evaluation(trained, {"data": "digits", "protocol": "transfer", "view": "elevater"})
