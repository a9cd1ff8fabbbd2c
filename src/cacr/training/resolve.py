"""What ``auto`` becomes: decided once, before training, from the data and the length of the run.

The rules, and what is known about them, are in ``docs/training.md`` and ``docs/results.md``.
"""

import math
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import torch

from cacr.config import PretrainSettings, ResolvedSettings
from cacr.data import Source
from cacr.data.grey import is_grey
from cacr.data.order import count_batches
from cacr.data.workers import usual_workers
from cacr.encoders import has_weights_rule, is_transformer, patch_problem
from cacr.errors import SettingsError, UnreadableImageError
from cacr.frameworks import FRAMEWORKS, Facts
from cacr.losses import OBJECTIVES
from cacr.training.optimizers import RATE_BATCH, USUAL
from cacr.training.precision import has_fast_bf16
from cacr.views import PRESETS, Preset, preset_for

SMALL_IMAGE = 64
"""Largest side of a view, in pixels, for which ``small_alexnet`` is the encoder."""

USUAL_SIZES = (32, 64, 128, 224)

SAMPLE = 32
"""Images that are looked at to learn how large they are, and whether they have colours."""

COLOUR_STEPS = ("hue", "saturation", "grey")
"""Settings of the views that change nothing in a grey image, and invent colours where a file is lossy."""

T_NEG = 4.0
"""CACR's t-: with a head that cannot shrink, near negatives may weigh much from the start."""

CPU_WIDTH = 0.25
"""Of ``small_alexnet`` on a processor, which makes several steps of it in the time of one at full width."""

EPOCHS = 200
"""As in the paper."""

WARMUP = 0.05
"""Share of a cosine run in which the learning rate rises."""

MEASURED_VIEWS = 5
"""Views of training, at most, in which the diagnostics look at an image."""

STRONG_VIEWS = 2
"""Stronger views in which they look at it too; as many random ones are compared with each other."""

FORWARD_COST = 0.5
"""Of the time of a view in training: that of one which is made and passes the encoder forward only."""

DIAGNOSTICS_SHARE = 0.03
"""Of the time of training that diagnostics may take."""

_PRESET_OF = {"cifar10": "cifar", "cifar100": "cifar100", "stl10": "stl", "digits": "digits"}


class Described(NamedTuple):
    """What is looked at of data.

    Attributes:
        name: for messages.
        images: to train on.
        side: shorter side of most images, in pixels.
        in_memory: whether they are arrays, and need no decoding.
        held_out: images that were taken from the data and are not trained on.
        measured: images that the diagnostics look at.
        grey: whether none of those that were looked at has colours.
    """

    name: str
    images: int
    side: int
    in_memory: bool
    held_out: int = 0
    measured: int = 0
    grey: bool = False


def describe(source: Source, *, held_out: int = 0, measured: int = 0) -> Described:
    """Look at a few of the images to train on."""
    sides, grey = [], True
    for index in np.unique(np.linspace(0, len(source) - 1, min(SAMPLE, len(source))).astype(int)):
        with suppress(UnreadableImageError):  # how many of them there are is found out when data is prepared
            image = source.read(int(index))
            sides.append(min(image.size))
            grey = grey and is_grey(image)  # looks no further once there is a colour
    side = int(np.median(sides or [USUAL_SIZES[0]]))
    in_memory = source.image_size is not None
    return Described(source.name, len(source), side, in_memory, held_out, measured, grey and bool(sides))


def resolve(
    settings: PretrainSettings,
    data: Described,
    *,
    world_size: int,
    device: torch.device,
) -> ResolvedSettings:
    """The same settings without ``auto``.

    Args:
        settings: what was asked for.
        data: the images to train on.
        world_size: number of processes.
        device: where this process computes.

    Raises:
        SettingsError: with everything that does not fit the data or the other settings.
    """
    known: dict[str, Any] = {}

    def choose(name: str, value: Any) -> Any:
        """Take what was asked for, or ``value`` in place of ``auto``."""
        asked = getattr(settings, name)
        known[name] = value if asked == "auto" else asked
        return known[name]

    size = choose("image_size", usual_size(data.side))
    preset = PRESETS[choose("preset", usual_preset(settings.data, size))]
    known["view_options"] = _view_options(settings, data, preset)
    views = choose("views", 5 if preset.local is None else preset.default_views)
    batch = choose("batch_size", _batch_size(data.images, views))
    epochs = choose("epochs", EPOCHS)
    encoder = choose("encoder", "small_alexnet" if size <= SMALL_IMAGE else "resnet18")
    choose("weights", "kaiming" if has_weights_rule(encoder) and not settings.init else "paper")
    choose("width", CPU_WIDTH if encoder == "small_alexnet" and device.type == "cpu" else 1.0)
    batches = max(1, count_batches(data.images, batch, world_size, keep_all=False))
    length = run_length(batches, epochs, settings)
    schedule = choose("schedule", "cosine")
    warmup = WARMUP * length.total / length.per_epoch if schedule.startswith("cosine") else 0.0
    choose("warmup_epochs", round(warmup, 4))
    choose("precision", "bf16" if has_fast_bf16(device) else "float32")
    choose("workers", usual_workers(world_size, in_memory=data.in_memory))
    choose("held_out", data.held_out)
    choose("measure_every_epochs", _epochs_between(data.measured, data.images, views))
    framework, transformer = FRAMEWORKS[settings.framework], is_transformer(encoder)
    optimizer = choose("optimizer", "adamw" if transformer else "sgd")
    rate = settings.base_lr or USUAL[optimizer].base_lr
    choose("lr", rate * batch * settings.accumulate / RATE_BATCH)
    choose("weight_decay", USUAL[optimizer].weight_decay)
    as_moco_v3 = transformer and settings.framework == "momentum"
    choose("positions", "fixed" if as_moco_v3 else "learned")
    choose("patches", "frozen" if as_moco_v3 else "trained")
    choose("first_layer", "random" if settings.init or known["patches"] == "frozen" else "whitened")
    choose("sync_batch_norm", framework.sync_batch_norm)
    choose("head", framework.usual_head(transformer))
    choose("dim", framework.usual_dim)
    facts = Facts(data.images, batch, length.total, transformer)
    known["framework_options"] = framework.usual_options(facts) | settings.framework_options
    known["objective_options"] = _objective_options(settings)
    resolved = ResolvedSettings.model_validate(settings.model_dump() | known)
    problems = [
        *_batch_problems(data, batch, world_size),
        *framework.problems(known["framework_options"], facts),
        *_encoder_problems(resolved, preset, transformer),
    ]
    if problems:
        raise SettingsError(problems)
    return resolved


def choices(asked: PretrainSettings, settings: ResolvedSettings) -> list[str]:
    """What became of ``auto``, as a note to print."""
    chosen = {name: value for name, value in settings if getattr(asked, name) == "auto" and value != "auto"}
    for own, given in (
        (settings.framework_options, asked.framework_options),
        (settings.objective_options, asked.objective_options),
        (settings.view_options, asked.view_options),
    ):
        chosen |= {name: value for name, value in own.items() if name not in given}
    return (
        ["chosen for you: " + " ".join(f"{name}={value}" for name, value in chosen.items())] if chosen else []
    )


def _batch_problems(data: Described, batch: int, world_size: int) -> list[str]:
    found = []
    if data.images < 2:
        return [f"{data.name} has {data.images} images to train on: at least two are needed"]
    if batch > data.images:
        found.append(
            f"a batch of {batch} images needs at least so many, {data.name} has {data.images}: "
            f"give --batch-size {data.images} or less"
        )
    if batch < 2 * world_size:
        found.append(
            f"a batch of {batch} gives {world_size} processes less than two images each: raise --batch-size"
        )
    return found


def _encoder_problems(settings: ResolvedSettings, preset: Preset, transformer: bool) -> list[str]:
    """What an encoder cannot do with the sizes of the views, or with settings that are for transformers."""
    encoder, size = settings.encoder, settings.image_size
    local = preset.resized(size).with_options(**settings.view_options).local
    sizes = {size: "image_size"} if local is None else {local.size: "local_size", size: "image_size"}
    found = _start_problems(settings)
    if transformer:
        wrong = {name: patch_problem(encoder, side) for side, name in sizes.items()}
        return found + [f"{name}: {problem}" for name, problem in wrong.items() if problem]
    if local is not None and len(sizes) > 1 and encoder == "small_alexnet":
        found.append(
            f"{encoder} takes images of one size, preset {preset.name} has views of {size} and {local.size} pixels: "
            "give another --encoder, such as resnet18"
        )
    for name, usual in (("positions", "learned"), ("patches", "trained")):
        if getattr(settings, name) != usual:
            found.append(f"{name} is a setting of transformers, {encoder} has none: leave it out")
    return found


def _start_problems(settings: ResolvedSettings) -> list[str]:
    """Rules for the first weights that contradict each other."""
    if settings.first_layer == "random":
        return []
    if settings.init:
        return [
            f"first_layer={settings.first_layer} would replace weights of {settings.init}: leave it out, or --init"
        ]
    if settings.patches == "frozen":
        return [f"patches=frozen keeps random patches, not first_layer={settings.first_layer}: leave one out"]
    return []


class RunLength(NamedTuple):
    """Optimiser steps of an epoch and of a whole run."""

    per_epoch: int
    total: int


def run_length(batches_per_epoch: int, epochs: int, settings: PretrainSettings) -> RunLength:
    """How many steps a run has, from batches in an epoch, ``accumulate`` and ``max_steps``."""
    per_epoch = -(-batches_per_epoch // settings.accumulate)
    total = per_epoch * epochs
    return RunLength(per_epoch, min(total, settings.max_steps or total))


def usual_size(side: int) -> int:
    """The largest usual size that is not above the images' shorter side."""
    return max((size for size in USUAL_SIZES if size <= side), default=USUAL_SIZES[0])


def usual_preset(data: str, size: int) -> str:
    """The preset made for a data set, or for ordinary photos of this size."""
    return _PRESET_OF.get(data, preset_for(size))


def _view_options(settings: PretrainSettings, data: Described, preset: Preset) -> dict[str, Any]:
    """Without steps that do nothing to grey images, where the preset is ours to choose.

    A preset that is named stays as it is: that of a user, of a recipe, of a run that is resumed.
    """
    if settings.preset != "auto" or not data.grey:
        return settings.view_options
    idle = {name: 0.0 for name in COLOUR_STEPS if any(getattr(view, name) for view in preset.views)}
    return idle | settings.view_options


def _batch_size(images: int, views: int) -> int:
    """The paper's 128 images, or 768 with two views of a large set: few steps an epoch teach little."""
    paper = 128 if views > 2 else min(768, max(128, images // 64))
    return max(2, min(paper, images))


def views_worth(views: int) -> float:
    """How many views of training cost as much as one measurement of an image, in a run with so many views of each.

    It is measured in at most five views, one of evaluation and two stronger ones.
    """
    return FORWARD_COST * (min(views, MEASURED_VIEWS) + 1 + STRONG_VIEWS)


def _epochs_between(measured: int, trained: int, views: int) -> int:
    """Epochs between diagnostics so that they take at most a small share of the time."""
    share = measured * views_worth(views) / (trained * views)
    return max(1, math.ceil(share / DIAGNOSTICS_SHARE))


def _objective_options(settings: PretrainSettings) -> dict[str, Any]:
    """CACR's usual t-, what the framework asks for; the rest as the objective has it."""
    kind = OBJECTIVES[settings.objective]
    options = FRAMEWORKS[settings.framework].objective_options(kind, settings.objective_options)
    if settings.objective == "cacr" and "t_neg" not in options:
        options["t_neg"] = T_NEG
    return options
