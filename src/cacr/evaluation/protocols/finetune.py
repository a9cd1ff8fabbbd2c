"""Fine-tuning: the whole network, end to end, by the recipe of its kind."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from cacr.config import Auto
from cacr.data.source import Indices
from cacr.encoders import EncoderInfo, is_transformer
from cacr.evaluation.data.splits import stratified_split
from cacr.evaluation.data.task import Task
from cacr.evaluation.engine.draws import drawn_labels, score_of_draws
from cacr.evaluation.engine.network import Network, first_images, scores_of, train_network
from cacr.evaluation.engine.tuning import Choice, Setting, best_of, choose_by_optuna
from cacr.evaluation.registry import PROTOCOLS, ProtocolSettings, Score
from cacr.evaluation.results.metrics import METRICS
from cacr.features.encode import ImageLoader, as_trained, centre_view
from cacr.features.machine import Machine
from cacr.training.schedules import warm_cosine
from cacr.views import probe_train


class FinetuneSettings(ProtocolSettings):
    """The whole network trained end to end; learning rate and weight decay are chosen on a validation split."""

    recipe: Literal["auto", "resnet", "vit"] = Field(
        "auto", description="resnet: SGD; vit: AdamW, layer-wise decay, label smoothing; auto: by the encoder"
    )
    lrs: tuple[Annotated[float, Field(gt=0)], ...] | Auto = Field(
        "auto", description="learning rates for a batch of 256 to choose from"
    )
    weight_decays: tuple[Annotated[float, Field(ge=0)], ...] | Auto = Field(
        "auto", description="weight decays to choose from"
    )
    layer_decay: Annotated[float, Field(gt=0, le=1)] | Auto = Field(
        "auto", description="factor on the learning rate from each layer to the one before"
    )
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] | Auto = Field(
        "auto", description="share of the target that is spread over all classes"
    )
    search: Literal["grid", "quick", "optuna"] = Field(
        "grid", description="every rate with every decay, the middle ones alone, or optuna between them"
    )
    trials: int = Field(12, ge=1, le=100_000, description="settings that optuna tries")
    epochs: int = Field(30, ge=1, le=1_000_000, description="passes over the training images")
    min_steps: int = Field(300, ge=1, le=10**9, description="further passes until there were so many steps")
    warmup: float = Field(0.1, ge=0, lt=1, description="share of the steps in which the rate rises")
    batch_size: int = Field(128, ge=2, le=1_000_000, description="images in a step")
    validation: float = Field(0.2, gt=0, le=0.5, description="share of the labels that chooses the setting")
    labels_per_class: int | None = Field(None, ge=2, description="use only so many labels of each class")
    draws: int = Field(3, ge=1, le=1000, description="draws of those labels, for mean and spread")


@dataclass(frozen=True)
class FinetuneRecipe:
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


FINETUNE_RECIPES = {
    "resnet": FinetuneRecipe(False, (0.01, 0.03, 0.1), (1e-4,), 1.0, 0.0),
    "vit": FinetuneRecipe(True, (2.5e-4, 5e-4, 1e-3), (0.05,), 0.75, 0.1),
}


def recipe_for(info: EncoderInfo, settings: FinetuneSettings) -> FinetuneRecipe:
    """The recipe asked for, or that of the encoder's kind, with the settings that were given in place of its own."""
    name = settings.recipe
    if name == "auto":
        name = "vit" if is_transformer(info.encoder) else "resnet"
    own = FINETUNE_RECIPES[name]
    return FinetuneRecipe(
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
    names = task.data.train.class_names
    draws = drawn_labels(labels.astype(np.int64), settings.labels_per_class, settings.draws, task.seed, names)
    found = [_tune(task, settings, recipe, rows, seed) for rows, seed in draws]
    return score_of_draws(
        [(details["last"], details) for details in found], task.data.metric, _notes(settings)
    )


def _tune(
    task: Task, settings: FinetuneSettings, recipe: FinetuneRecipe, rows: Indices, seed: int
) -> dict[str, Any]:
    """Choose a setting on held-out training images, train with it on all, judge on the test images."""
    grid = [Setting(lr, decay) for lr in recipe.lrs for decay in recipe.weight_decays]
    choice = Choice(grid[len(grid) // 2], math.nan, ())
    if settings.search != "quick" and len(grid) > 1:
        first, second = stratified_split(
            task.data.train_labels[rows].astype(np.int64), settings.validation, seed
        )

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
    task: Task, settings: FinetuneSettings, recipe: FinetuneRecipe, setting: Setting, rows: Indices, seed: int
) -> Network:
    info, device = task.encoder.info, task.machine.device
    batch = min(settings.batch_size, len(rows))
    view = as_trained(probe_train(info.image_size, info.mean, info.std).views[0], info)
    machine = Machine(batch, task.machine.workers, device)
    source, labels = task.data.train.subset(rows), torch.from_numpy(task.data.train_labels[rows])
    loader = ImageLoader(
        info, source, view, machine, shuffle=True, seed=seed, max_unreadable=task.max_unreadable
    )
    network = Network(task.encoder, task.data.classes, seed, device)
    some = first_images(rows, seed)
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
        rate=warm_cosine(epochs * per_epoch, settings.warmup),
        after_epoch=ended,
    )
    return network


def make_optimizer(
    network: Network, recipe: FinetuneRecipe, lr: float, weight_decay: float
) -> torch.optim.Optimizer:
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
