"""Replace ``auto``: decided once, before training, from the data and the length of the run.

The rules are in :mod:`cacr.training.settings.rules`; what is known about them is in
``docs/explanation/automatic-choices.md``.
"""

import math
from typing import Any, NamedTuple

import torch

from cacr.config import PretrainSettings, ResolvedSettings
from cacr.data.order import count_batches, least_batch
from cacr.data.workers import default_workers
from cacr.encoders import feature_dim_of, has_weights_rule, is_transformer
from cacr.encoders.heads import default_dim
from cacr.errors import SettingsError
from cacr.feature_view import FeatureView
from cacr.frameworks import FRAMEWORKS, Facts
from cacr.losses import OBJECTIVES
from cacr.training.optimization.optimizers import RATE_BATCH, method_rates
from cacr.training.processes.precision import has_fast_bf16
from cacr.training.settings.described import Described
from cacr.training.settings.misfits import misfits
from cacr.training.settings.rules import (
    COLOUR_STEPS,
    CONTINUED_RATE,
    EPOCHS,
    FULL,
    NARROW,
    NO_PREDICTOR,
    T_NEG,
    VIEWS,
    WARMUP,
    default_batch,
    default_encoder,
    default_first_layer,
    default_preset,
    default_size,
    default_weights,
)
from cacr.views import PRESETS, Preset

MEASURED_VIEWS = 5
"""Number of training views per image in the diagnostics."""

STRONG_VIEWS = 2
"""Number of stronger views per image in the diagnostics; the same number of random views is compared with them."""

FORWARD_COST = 0.5
"""Time of a view that only passes the encoder forward, divided by that of a view in training."""

DIAGNOSTICS_SHARE = 0.03
"""Largest share of the training time for diagnostics."""


def resolve(
    settings: PretrainSettings,
    data: Described,
    *,
    world_size: int,
    device: torch.device,
) -> ResolvedSettings:
    """Replace ``auto`` in the settings.

    Args:
        settings: the settings that were given.
        data: the images to train on.
        world_size: number of processes.
        device: device of this process.

    Raises:
        SettingsError: lists everything that does not fit the data or the other settings.
    """
    known: dict[str, Any] = {}

    def choose(name: str, value: Any) -> Any:
        """Use the given value, or ``value`` instead of ``auto``."""
        asked = getattr(settings, name)
        known[name] = value if asked == "auto" else asked
        return known[name]

    framework = FRAMEWORKS[settings.framework]
    size = choose("image_size", default_size(data.side))
    seen = choose("feature_view", None)
    known["feature_view"] = seen if seen is not None and seen.size > size else None
    choose("channels", data.channels)
    preset = PRESETS[choose("preset", framework.default_preset or default_preset(settings.data, size))]
    known["view_options"] = _view_options(settings, data, preset)
    views = choose(
        "views", framework.default_views or (VIEWS if preset.local is None else preset.default_views)
    )
    batch = choose("batch_size", default_batch(data.images, views))
    epochs = choose("epochs", EPOCHS)
    encoder = choose("encoder", default_encoder(size))
    choose("weights", default_weights(ours=has_weights_rule(encoder), continued=bool(settings.init)))
    choose("statistics", "fixed" if settings.init else "batch")
    choose("encoder_rate", CONTINUED_RATE if settings.init else 1.0)
    choose("width", NARROW if encoder == "small_alexnet" and device.type == "cpu" else FULL)
    batches = max(1, count_batches(data.images, batch, least_batch(batch, world_size)))
    length = run_length(batches, epochs, settings)
    schedule = choose("schedule", "cosine")
    warmup = WARMUP * length.total / length.per_epoch if schedule.startswith("cosine") else 0.0
    choose("warmup_epochs", round(warmup, 4))
    choose("precision", "bf16" if has_fast_bf16(device) else "float32")
    choose("workers", default_workers(world_size, in_memory=data.in_memory))
    choose("held_out", data.held_out)
    choose("measure_every_epochs", _epochs_between(data, views, views_worth(size, known["feature_view"])))
    transformer = is_transformer(encoder)
    optimizer = choose("optimizer", framework.default_optimizer or ("adamw" if transformer else "sgd"))
    rates = method_rates(settings.method, optimizer)
    choose("lr", (settings.base_lr or rates.base_lr) * batch * settings.accumulate / RATE_BATCH)
    choose("weight_decay", rates.weight_decay)
    known["bias_base_lr"] = settings.bias_base_lr or rates.bias_base_lr
    as_moco_v3 = transformer and settings.framework == "momentum"
    choose("positions", "fixed" if as_moco_v3 else "learned")
    choose("patches", "frozen" if as_moco_v3 else "trained")
    choose("first_layer", default_first_layer(continued=bool(settings.init), patches=known["patches"]))
    choose("sync_batch_norm", framework.sync_batch_norm)
    head = choose("head", framework.default_head(transformer))
    width = known["width"]
    choose("dim", default_dim(head, lambda: feature_dim_of(encoder, size, width), width))
    choose("predictor", framework.default_predictor if framework.has_predictor else NO_PREDICTOR)
    facts = _facts(data, batch, length, transformer, preset.global_views(views))
    known["framework_options"] = framework.complete_options(settings.framework_options, facts)
    known["objective_options"] = _objective_options(settings)
    resolved = ResolvedSettings.model_validate(settings.model_dump() | known)
    problems = [
        *misfits(resolved, data, world_size),
        *framework.problems(known["framework_options"], facts),
    ]
    if problems:
        raise SettingsError(problems)
    return resolved


def choices(asked: PretrainSettings, settings: ResolvedSettings) -> list[str]:
    """A note with the values chosen for ``auto``."""
    chosen = {
        name: value
        for name, value in settings
        if getattr(asked, name) == "auto" and value not in ("auto", None)
    }
    for own, given in (
        (settings.framework_options, asked.framework_options),
        (settings.objective_options, asked.objective_options),
        (settings.view_options, asked.view_options),
    ):
        chosen |= {name: value for name, value in own.items() if name not in given}
    return (
        ["chosen for you: " + " ".join(f"{name}={value}" for name, value in chosen.items())] if chosen else []
    )


class RunLength(NamedTuple):
    """Number of optimiser steps of an epoch and of the whole run."""

    per_epoch: int
    total: int


def run_length(batches_per_epoch: int, epochs: int, settings: PretrainSettings) -> RunLength:
    """Number of steps of a run, from the batches per epoch, ``accumulate`` and ``max_steps``."""
    per_epoch = -(-batches_per_epoch // settings.accumulate)
    total = per_epoch * epochs
    return RunLength(per_epoch, min(total, settings.max_steps or total))


def _facts(data: Described, batch: int, length: RunLength, transformer: bool, global_views: int) -> Facts:
    """What a framework may ask about a run."""
    epochs = length.total / length.per_epoch
    return Facts(data.images, batch, length.total, transformer, data.captions, global_views, epochs)


def planned_length(settings: ResolvedSettings, images: int, world_size: int) -> RunLength:
    """Number of steps of a run on ``images`` images."""
    least = least_batch(settings.batch_size, world_size)
    batches = count_batches(images, settings.batch_size, least)
    return run_length(max(1, batches), settings.epochs, settings)


def _view_options(settings: PretrainSettings, data: Described, preset: Preset) -> dict[str, Any]:
    """View options; leaves out colour changes for grey images, if the preset was chosen automatically.

    A preset that the user, a recipe or a resumed run names is not changed.
    """
    if data.mean:  # not 8-bit RGB: use the statistics of the data, and no colour changes
        if data.channels == 3:
            return {"mean": data.mean, "std": data.std} | settings.view_options
        given = settings.view_options
        if settings.init:  # statistics of RGB weights do not fit other channels
            given = {k: v for k, v in given.items() if k not in ("mean", "std") or len(v) == data.channels}
        return {**dict.fromkeys(COLOUR_STEPS, 0.0), "mean": data.mean, "std": data.std} | given
    if settings.preset != "auto" or not data.grey:
        return settings.view_options
    idle = {name: 0.0 for name in COLOUR_STEPS if any(getattr(view, name) for view in preset.views)}
    return idle | settings.view_options


def keyed_views(settings: ResolvedSettings) -> int:
    """Number of views per image that are keys; local crops are keys only if the objective asks for it."""
    if settings.objective_options.get("local_keys"):
        return settings.views
    return PRESETS[settings.preset].global_views(settings.views)


def views_worth(image_size: int, feature_view: FeatureView | None) -> float:
    """A measurement of an image costs as much as this number of training views.

    It uses five training views, two stronger views, and the view for features, which may be larger.
    """
    larger = 1.0 if feature_view is None else (feature_view.size / image_size) ** 2
    return FORWARD_COST * (MEASURED_VIEWS + STRONG_VIEWS + larger)


def _epochs_between(data: Described, views: int, worth: float) -> int:
    """Epochs between diagnostics, such that they take at most a small share of the time."""
    share = data.measured * worth / (data.images * views)
    return max(1, math.ceil(share / DIAGNOSTICS_SHARE))


def _objective_options(settings: PretrainSettings) -> dict[str, Any]:
    """Options of the objective: CACR's default t-, the defaults of the framework, and the given options."""
    kind = OBJECTIVES[settings.objective]
    preset = PRESETS.get(settings.preset)
    local = preset is not None and preset.local is not None
    framework = FRAMEWORKS[settings.framework]
    options = framework.objective_options(kind, settings.objective_options, local=local)
    if settings.objective == "cacr" and "t_neg" not in options:
        options["t_neg"] = T_NEG
    return options
