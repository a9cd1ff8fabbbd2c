"""Fine-tuning: the whole network, end to end, by the recipe of its kind."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cacr.encoders import EncoderInfo
from cacr.evaluation.data.splits import Indices, draw_per_class, hold_out
from cacr.evaluation.data.task import Task
from cacr.evaluation.engine.network import Network, scores_of, train_network
from cacr.evaluation.engine.tuning import Choice, Setting, best_of, choose_by_optuna
from cacr.evaluation.options import FinetuneSettings
from cacr.evaluation.registry import PROTOCOLS, Score
from cacr.evaluation.results.metrics import METRICS
from cacr.features.encode import ImageLoader, centre_view, usual_flip
from cacr.features.machine import Machine
from cacr.randomness import mixed_seed
from cacr.views import probe_train

FIRST_IMAGES = 1024
"""Images whose features give batch norm its first statistics."""


@dataclass(frozen=True)
class Recipe:
    """How a kind of network is fine-tuned.

    Attributes:
        adam: AdamW; otherwise SGD with Nesterov momentum 0.9.
        lrs: Learning rates for a batch of 256 images.
        weight_decays: Weight decays.
        layer_decay: Factor on the learning rate from each layer to the one before.
        label_smoothing: Share of the target that is spread over all classes.
    """

    adam: bool
    lrs: tuple[float, ...]
    weight_decays: tuple[float, ...]
    layer_decay: float
    label_smoothing: float


RECIPES = {
    "resnet": Recipe(False, (0.01, 0.03, 0.1), (1e-4,), 1.0, 0.0),
    "vit": Recipe(True, (2.5e-4, 5e-4, 1e-3), (0.05,), 0.75, 0.1),
}

_TRANSFORMERS = ("vit", "deit", "swin", "beit", "eva", "cait")


def recipe_for(info: EncoderInfo, settings: FinetuneSettings) -> Recipe:
    """The recipe asked for, or that of the encoder's kind, with the settings that were given in place of its own."""
    name = settings.recipe
    if name == "auto":
        name = "vit" if info.encoder.startswith(_TRANSFORMERS) else "resnet"
    own = RECIPES[name]
    return Recipe(
        own.adam,
        own.lrs if settings.lrs == "auto" else settings.lrs,
        own.weight_decays if settings.weight_decays == "auto" else settings.weight_decays,
        own.layer_decay if settings.layer_decay == "auto" else settings.layer_decay,
        own.label_smoothing if settings.label_smoothing == "auto" else settings.label_smoothing,
    )


@PROTOCOLS.register("finetune")
def finetune(task: Task, settings: FinetuneSettings) -> Score:
    """The whole network trained end to end; learning rate and weight decay are chosen on a validation split."""
    recipe = recipe_for(task.encoder.info, settings)
    labels = task.data.train_labels
    if settings.labels_per_class is None:
        details = _tune(task, settings, recipe, np.arange(len(labels)), task.seed)
        return Score(details["last"], None, details, task.data.metric, notes=_notes(settings))
    found = []
    for draw in range(settings.draws):
        seed = mixed_seed("labels", task.seed, draw)
        rows = draw_per_class(labels.astype(np.int64), settings.labels_per_class, seed)
        found.append(_tune(task, settings, recipe, rows, seed))
    scores = [details["last"] for details in found]
    together = {name: [details[name] for details in found] for name in found[0]}
    spread = stdev(scores) if len(scores) > 1 else None
    return Score(
        mean(scores), spread, {"scores": scores, **together}, task.data.metric, notes=_notes(settings)
    )


def _tune(task: Task, settings: FinetuneSettings, recipe: Recipe, rows: Indices, seed: int) -> dict[str, Any]:
    """Choose a setting on held-out training images, train with it on all, judge on the test images."""
    grid = [Setting(lr, decay) for lr in recipe.lrs for decay in recipe.weight_decays]
    choice = Choice(grid[len(grid) // 2], math.nan, ())
    if settings.search != "quick" and len(grid) > 1:
        first, second = hold_out(task.data.train_labels[rows].astype(np.int64), settings.validation, seed)

        def measure(tried: Setting) -> float:
            network = _train(task, settings, recipe, tried, rows[first], seed)
            return METRICS[task.data.metric](*scores_of(network, _in_order(task, rows[second])))

        if settings.search == "grid":
            choice = best_of([(tried, measure(tried)) for tried in grid])
        else:
            ranges = (
                (min(recipe.lrs), max(recipe.lrs)),
                (min(recipe.weight_decays), max(recipe.weight_decays)),
            )
            choice = choose_by_optuna(measure, *ranges, trials=settings.trials, seed=seed)
    network = _train(task, settings, recipe, choice.best, rows, seed)
    score = METRICS[task.data.metric](*scores_of(network, _in_order(task, None)))
    return {
        "last": score,
        "lr": choice.best.lr,
        "weight_decay": choice.best.weight_decay,
        "validation": {f"{lr:g}, {decay:g}": score for (lr, decay), score in choice.tried},
    }


def _train(
    task: Task, settings: FinetuneSettings, recipe: Recipe, setting: Setting, rows: Indices, seed: int
) -> Network:
    info, device = task.encoder.info, task.machine.device
    batch = min(settings.batch_size, len(rows))
    view = probe_train(info.image_size, info.mean, info.std, flip=usual_flip(info)).views[0]
    machine = Machine(batch, task.machine.workers, device)
    source, labels = task.data.train.subset(rows), torch.from_numpy(task.data.train_labels[rows])
    loader = ImageLoader(
        info, source, view, machine, shuffle=True, seed=seed, max_unreadable=task.max_unreadable
    )
    network = Network(task.encoder, task.data.classes, seed, device)
    some = rows[np.sort(np.random.default_rng(seed).permutation(len(rows))[:FIRST_IMAGES])]
    network.begin_at(images for images, _ in _in_order(task, some))
    per_epoch = max(1, len(rows) // batch)
    epochs = max(settings.epochs, math.ceil(settings.min_steps / per_epoch))
    lr = setting.lr * batch / 256

    def batches(epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        for images, index in loader.epoch(epoch):
            yield images, labels[index].to(device)

    done = 0

    def ended() -> None:
        nonlocal done
        done += 1
        if task.progress is not None:
            task.progress(done, epochs)

    train_network(
        network,
        make_optimizer(network, recipe, lr, setting.weight_decay),
        batches,
        epochs=epochs,
        per_epoch=per_epoch,
        label_smoothing=recipe.label_smoothing,
        rate=lambda share: warm_cosine(share, settings.warmup),
        after_epoch=ended,
    )
    return network


def make_optimizer(network: Network, recipe: Recipe, lr: float, weight_decay: float) -> torch.optim.Optimizer:
    """SGD or AdamW; vectors (biases and norms) are not decayed, and layers near the image learn more slowly.

    The head has the full rate ``lr``; the layer before it ``layer_decay`` of it, the one before that its square.
    """
    from timm.optim import param_groups_layer_decay  # type: ignore[attr-defined]

    undecayed: set[str] = getattr(
        network.backbone, "no_weight_decay", set
    )()  # position embeddings and the like
    groups = param_groups_layer_decay(
        network.backbone,
        weight_decay,
        no_weight_decay_list=tuple(undecayed),
        layer_decay=recipe.layer_decay,
    )
    for group in groups:
        group["lr"] = lr * recipe.layer_decay * group.pop("lr_scale")
    groups.append({"params": [network.head.weight], "weight_decay": weight_decay, "lr": lr})
    groups.append({"params": [network.head.bias], "weight_decay": 0.0, "lr": lr})
    if recipe.adam:
        return torch.optim.AdamW(groups, lr=lr)
    return torch.optim.SGD(groups, lr=lr, momentum=0.9, nesterov=True)


def warm_cosine(share: float, warmup: float) -> float:
    """Factor on the learning rate: a linear rise, then half a cosine."""
    if share < warmup:
        return share / warmup
    return (1 + math.cos(math.pi * (share - warmup) / (1 - warmup))) / 2


def _in_order(task: Task, rows: Indices | None) -> Iterator[tuple[Tensor, Tensor]]:
    """Centre crops of some training images, or of all test images, with their labels."""
    data, info = task.data, task.encoder.info
    source = data.test if rows is None else data.train.subset(rows)
    labels = torch.from_numpy(data.test_labels if rows is None else data.train_labels[rows])
    loader = ImageLoader(info, source, centre_view(info), task.machine, max_unreadable=task.max_unreadable)
    for images, index in loader.epoch(0):
        yield images, labels[index].to(task.machine.device)
    if rows is None:
        task.problems.extend(loader.problems)


def _notes(settings: FinetuneSettings) -> tuple[str, ...]:
    if settings.search == "quick":
        return ("one setting was used, none was searched for (search=quick)",)
    return ()
