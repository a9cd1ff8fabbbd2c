"""Fine-tuning of the whole network, with a recipe for its kind."""

import math
import re
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, Field

from cacr.config import Auto
from cacr.data.source import Indices
from cacr.encoders import KEPT_FIRST_LAYERS, Encoder, EncoderInfo, is_transformer
from cacr.errors import UserError
from cacr.evaluation.data.splits import stratified_split
from cacr.evaluation.data.task import Task
from cacr.evaluation.engine.draws import drawn_labels, score_of_draws
from cacr.evaluation.engine.finetuning import (
    FINETUNE_RECIPES,
    FinetuneRecipe,
    Length,
    fine_tune,
    in_order,
)
from cacr.evaluation.engine.network import scores_of
from cacr.evaluation.engine.regularised import residual_paths
from cacr.evaluation.engine.tuning import Choice, Setting, best_of, choose_by_optuna
from cacr.evaluation.registry import PROTOCOLS, ProtocolSettings, Score
from cacr.evaluation.results.metrics import METRICS

AUGMENT = re.compile(r"rand(-(m|n|w|p|t|mmax|mstd|inc)[0-9.]+)*")
"""RandAugment in timm's notation."""


def _known_augment(text: str) -> str:
    if text not in ("auto", "none") and not AUGMENT.fullmatch(text):
        raise ValueError(
            f"is {text!r}, and must be none, or RandAugment in timm's notation: rand-m9-mstd0.5-inc1"
        )
    return text


class FinetuneSettings(ProtocolSettings):
    """Fine-tuning of the whole network; learning rate and weight decay are chosen on a validation split."""

    start: Literal["features", "head1"] = Field(
        "features",
        alias="from",
        description="what is classified: the encoder's features, or (SimCLR v2) the first layer of its trained head",
    )
    recipe: Literal["auto", "resnet", "vit", "deit"] = Field(
        "auto",
        description="resnet: SGD; vit: AdamW, layer-wise decay, label smoothing; deit: AdamW, mixup, cutmix, "
        "RandAugment, erasing, stochastic depth; auto: resnet or vit, by the encoder",
    )
    lrs: tuple[Annotated[float, Field(gt=0)], ...] | Auto = Field(
        "auto", description="learning rates to choose from, for a batch of 256"
    )
    weight_decays: tuple[Annotated[float, Field(ge=0)], ...] | Auto = Field(
        "auto", description="weight decays to choose from"
    )
    layer_decay: Annotated[float, Field(gt=0, le=1)] | Auto = Field(
        "auto", description="factor on the learning rate from each layer to the one before"
    )
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] | Auto = Field(
        "auto", description="label smoothing: share of the target that is divided among all classes"
    )
    mixup: Annotated[float, Field(ge=0, le=100)] | Auto = Field(
        "auto", description="alpha of mixup (share of another image); 0: none"
    )
    cutmix: Annotated[float, Field(ge=0, le=100)] | Auto = Field(
        "auto", description="alpha of cutmix (area of another image); 0: none"
    )
    augment: Annotated[str, AfterValidator(_known_augment)] = Field(
        "auto", description="RandAugment in timm's notation, such as rand-m9-mstd0.5-inc1; none: without"
    )
    erasing: Annotated[float, Field(ge=0, le=1)] | Auto = Field(
        "auto", description="probability that a rectangle of an image becomes noise"
    )
    drop_path: Annotated[float, Field(ge=0, lt=1)] | Auto = Field(
        "auto", description="probability of dropping the last residual path; lower for earlier ones"
    )
    search: Literal["grid", "quick", "optuna"] = Field(
        "grid",
        description="grid: every rate with every decay; quick: only the middle ones; optuna: values between",
    )
    trials: int = Field(12, ge=1, le=100_000, description="number of settings that optuna tries")
    epochs: int = Field(30, ge=1, le=1_000_000, description="passes over the training images")
    min_steps: int = Field(300, ge=1, le=10**9, description="add passes until there are this many steps")
    warmup: float = Field(0.1, ge=0, lt=1, description="share of the steps in which the rate rises")
    batch_size: int = Field(128, ge=2, le=1_000_000, description="images per step")
    validation: float = Field(0.2, gt=0, le=0.5, description="share of the labels for choosing the setting")
    labels_per_class: int | None = Field(None, ge=2, description="use only this number of labels per class")
    draws: int = Field(3, ge=1, le=1000, description="number of random draws of labels, for mean and spread")

    def refusal(self, encoder: Encoder) -> str | None:
        """Refuse ``from=head1`` for an encoder without a stored head."""
        if self.start == "features":
            return None
        if encoder.load_head1 is None:
            heads = " or ".join(KEPT_FIRST_LAYERS)
            return f"from=head1 needs the first layer of a head next to the encoder: a run with head={heads} stores it"
        encoder.load_head1()  # raises an error if it is damaged
        return None

    def plan(self, info: EncoderInfo, images: int) -> list[str]:
        """The recipe, and the number of steps of the final training."""
        recipe, length = recipe_for(info, self), self.length
        how = recipe.regularisation
        optimizer = "AdamW" if recipe.adam else "SGD"
        batch = min(length.batch_size, images)
        epochs, per_epoch = length.on(images)
        tried = 1 if self.search == "quick" else len(recipe.lrs) * len(recipe.weight_decays)
        rates = ", ".join(f"{lr * batch / 256:g}" for lr in recipe.lrs)
        return [
            f"{optimizer}, rates {rates} for {batch:,} images, layer decay {recipe.layer_decay:g}, label smoothing "
            f"{recipe.label_smoothing:g}",
            f"mixup {how.mixup:g}, cutmix {how.cutmix:g}, {how.augment or 'no RandAugment'}, erasing {how.erasing:g}, "
            f"drop path {how.drop_path:g}",
            f"{tried} settings; then {epochs * per_epoch:,} steps, {epochs:,} epochs of all {images:,} images",
        ]

    @property
    def length(self) -> Length:
        """How long a network is trained."""
        return Length(self.epochs, self.min_steps, self.warmup, self.batch_size)


def recipe_for(info: EncoderInfo, settings: FinetuneSettings) -> FinetuneRecipe:
    """The chosen recipe, or that of the encoder's kind; given settings override it."""
    name = settings.recipe
    if name == "auto":
        name = "vit" if is_transformer(info.encoder) else "resnet"
    own = FINETUNE_RECIPES[name]
    means = ("mixup", "cutmix", "augment", "erasing", "drop_path")
    given = {each: value for each in means if (value := getattr(settings, each)) != "auto"}
    if given.get("augment") == "none":
        given["augment"] = ""
    return replace(
        own,
        lrs=own.lrs if settings.lrs == "auto" else settings.lrs,
        weight_decays=own.weight_decays if settings.weight_decays == "auto" else settings.weight_decays,
        layer_decay=own.layer_decay if settings.layer_decay == "auto" else settings.layer_decay,
        label_smoothing=own.label_smoothing
        if settings.label_smoothing == "auto"
        else settings.label_smoothing,
        regularisation=replace(own.regularisation, **given),
    )


@PROTOCOLS.register("finetune")
def finetune(task: Task, settings: FinetuneSettings) -> Score:
    """Fine-tuning of the whole network; learning rate and weight decay are chosen on a validation split."""
    recipe = recipe_for(task.encoder.info, settings)
    _require_rgb(task, recipe)
    labels = task.data.train_labels
    if settings.labels_per_class is None:
        details = _tune(task, settings, recipe, np.arange(len(labels)), task.seed)
        return Score(details["last"], None, details, task.data.metric, notes=_notes(settings, recipe, task))
    names = task.data.train.class_names
    draws = drawn_labels(labels.astype(np.int64), settings.labels_per_class, settings.draws, task.seed, names)
    found = [_tune(task, settings, recipe, rows, seed) for rows, seed in draws]
    return score_of_draws(
        [(details["last"], details) for details in found],
        task.data.metric,
        _notes(settings, recipe, task),
    )


def _tune(
    task: Task, settings: FinetuneSettings, recipe: FinetuneRecipe, rows: Indices, seed: int
) -> dict[str, Any]:
    """Choose a setting on held-out training images, train with it on all of them, test on the test images."""
    grid = [Setting(lr, decay) for lr in recipe.lrs for decay in recipe.weight_decays]
    choice = Choice(grid[len(grid) // 2], math.nan, ())
    length = settings.length
    load = task.encoder.load_head1 if settings.start == "head1" else None
    head1 = None if load is None else load()
    if settings.search != "quick" and len(grid) > 1:
        first, second = stratified_split(
            task.data.train_labels[rows].astype(np.int64), settings.validation, seed
        )

        def measure(tried: Setting) -> float:
            network = fine_tune(task, recipe, length, tried, rows[first], seed, head1)
            return METRICS[task.data.metric](*scores_of(network, in_order(task, rows[second])))

        if settings.search == "grid":
            choice = best_of([(tried, measure(tried)) for tried in grid])
        else:
            ranges = (
                (min(recipe.lrs), max(recipe.lrs)),
                (min(recipe.weight_decays), max(recipe.weight_decays)),
            )
            choice = choose_by_optuna(measure, *ranges, trials=settings.trials, seed=seed)
    network = fine_tune(task, recipe, length, choice.best, rows, seed, head1)
    score = METRICS[task.data.metric](*scores_of(network, in_order(task, None)))
    return {
        "last": score,
        "lr": choice.best.lr,
        "weight_decay": choice.best.weight_decay,
        "validation": {f"{lr:g}, {decay:g}": score for (lr, decay), score in choice.tried},
    }


def _notes(settings: FinetuneSettings, recipe: FinetuneRecipe, task: Task) -> tuple[str, ...]:
    notes = []
    if settings.search == "quick":
        notes.append("only one setting was used, without a search (search=quick)")
    if recipe.regularisation.drop_path and not residual_paths(task.encoder.backbone):
        notes.append(f"{task.encoder.info.encoder} has no residual paths: drop_path has no effect")
    return tuple(notes)


def _require_rgb(task: Task, recipe: FinetuneRecipe) -> None:
    """Refuse RandAugment for images that it cannot change.

    Raises:
        UserError: they do not have three channels, or have more than 8 bits.
    """
    if recipe.regularisation.augment and (task.data.train.deep or task.encoder.info.channels != 3):
        raise UserError(
            f"RandAugment needs images with three channels and 8 bits, and {task.data.train.name} has others: "
            "use --set augment=none"
        )
