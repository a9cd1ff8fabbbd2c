"""From resolved settings to what the loop works with: views, loader, model, optimiser, schedule."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from cacr.config import ResolvedSettings
from cacr.data import Loader, Source
from cacr.encoders import (
    Encoder,
    build_encoder,
    build_head,
    build_predictor,
    first_layer,
    fix_positions,
    fix_statistics,
    freeze_patches,
    freeze_stages,
    is_fetched,
    is_transformer,
    load_weights,
    set_filters,
    share_statistics,
)
from cacr.encoders.heads import usual_hidden
from cacr.frameworks import FRAMEWORKS, Framework, describe_chunks
from cacr.losses import OBJECTIVES
from cacr.runs.folder import RunFolder
from cacr.training.average import Average
from cacr.training.continued import TIMM
from cacr.training.fabric import Fabric
from cacr.training.first_layer import filters_from_images
from cacr.training.job import Training
from cacr.training.kept import keep_features
from cacr.training.optimizers import build_optimizer
from cacr.training.resolve import run_length
from cacr.training.schedules import build_schedule
from cacr.views import PRESETS, Preset, Views
from cacr.views.presets import shorter_side


def build_training(
    fabric: Fabric,
    settings: ResolvedSettings,
    run: RunFolder,
    source: Source,
    *,
    new: bool,
) -> Training:
    """Everything that the loop works with.

    Args:
        fabric: the process, its device and its numbers.
        settings: of the run.
        run: where it is kept.
        source: the images to train on.
        new: whether it begins here; the weights of another come from its checkpoint.
    """
    preset, views = preset_of(settings), make_views_of(settings, fabric.device)
    # Weights from elsewhere and images are for the start only: they need not exist any more when a run is resumed.
    filters = partial(filters_from_images, fabric, settings, preset, source) if new else None
    init = settings.init if new else None
    if not new and settings.framework_options.get("image_trained") is False:
        init = str(run.path)  # features of images are kept below, before the checkpoint is loaded
    method, notes = build_method(settings, init, filters)
    encoder = method.encoder
    encoder.info = replace(
        encoder.info,
        resize=shorter_side(settings.image_size),
        mean=preset.mean,
        std=preset.std,
        preset=preset.name,
        upright=preset.upright,
    )
    kept = keep_features(fabric, settings, preset, source, method)
    loader = make_loader(
        settings,
        source if kept is None else kept.source,
        views,
        rank=fabric.global_rank,
        world_size=fabric.world_size,
        pin_memory=fabric.device.type == "cuda",
    )
    if settings.sync_batch_norm:
        share_statistics(method)
    optimizer = build_optimizer(settings, method)
    if settings.channels_last:
        method = method.to(memory_format=torch.channels_last)
    model, wrapped = fabric.setup(method, optimizer)
    length = run_length(loader.batches_per_epoch, settings.epochs, settings)
    return Training(
        fabric=fabric,
        settings=settings,
        run=run,
        loader=loader,
        views=views,
        method=method,
        model=model,
        optimizer=wrapped,
        schedule=build_schedule(
            settings.schedule,
            total=length.total,
            warmup=round(settings.warmup_epochs * length.per_epoch),
            per_epoch=length.per_epoch,
            milestones=settings.milestones,
            gamma=settings.gamma,
            final=settings.final_lr,
        ),
        total_steps=length.total,
        features=None if kept is None else kept.features,
        average=Average(method, settings.average) if settings.average else None,
        notes=notes,
    )


def preset_of(settings: ResolvedSettings) -> Preset:
    """The view preset, at the size and with the options that the settings ask for."""
    return PRESETS[settings.preset].resized(settings.image_size).with_options(**settings.view_options)


def make_views_of(settings: ResolvedSettings, device: torch.device | None = None) -> Views:
    """What makes the views of a run."""
    preset = preset_of(settings)
    return Views(
        preset.for_views(settings.views, settings.weak_views), preset.mean, preset.std, device=device
    )


def make_loader(
    settings: ResolvedSettings,
    source: Source,
    views: Views,
    *,
    rank: int = 0,
    world_size: int = 1,
    pin_memory: bool = False,
) -> Loader:
    """The batches of a run, as one of its processes gets them."""
    return Loader(
        source,
        batch_size=settings.batch_size,
        seed=settings.seed,
        rank=rank,
        world_size=world_size,
        workers=settings.workers,
        crop=views.crop,
        at_least=views.at_least,
        max_unreadable=settings.max_unreadable,
        pin_memory=pin_memory,
    )


class Built(NamedTuple):
    """A framework with its networks, and what the user should know about how it was built."""

    method: Framework
    notes: tuple[str, ...]


Filters = Callable[[nn.Module], Tensor]
"""Of a backbone: the filters that its first layer starts from."""


def build_method(
    settings: ResolvedSettings, init: str | None = None, filters: Filters | None = None
) -> Built:
    """The framework, its encoder and objective; the seed alone decides the random weights.

    Args:
        settings: of the run.
        init: where the encoder's weights start from: a run, a weights file, ``timm``, or None for random ones.
        filters: what a first layer that is not random starts from; None where weights are loaded afterwards.
    """
    torch.manual_seed(settings.seed)
    encoder, notes = _build_encoder(settings, init)
    if settings.first_layer != "random":
        layer = first_layer(encoder.backbone, settings.channels)
        given = layer.weight if filters is None else filters(encoder.backbone)
        set_filters(layer, given, trained=settings.first_layer == "whitened")
    hidden = hidden_width(settings, encoder)
    head = build_head(settings.head, encoder.feature_dim, settings.dim, hidden)
    objective = OBJECTIVES[settings.objective](**settings.objective_options)
    framework, options = FRAMEWORKS[settings.framework], dict(settings.framework_options)
    if framework.has_predictor:
        options["predictor"] = build_predictor(
            settings.predictor, settings.dim, hidden, transformer=is_transformer(settings.encoder)
        )
    if framework.reads_captions:
        options["text_head"] = partial(build_head, settings.head, dim=settings.dim, hidden=hidden)
    method = framework(
        encoder,
        head,
        objective,
        batch_norm=settings.batch_norm,
        exchange=settings.exchange,
        encode_chunk=settings.encode_chunk,
        **options,
    )
    if settings.encode_chunk is not None:
        notes.append(describe_chunks(method, settings.encode_chunk))
    return Built(method, tuple(notes))


def hidden_width(settings: ResolvedSettings, encoder: Encoder) -> int:
    """Width of the hidden layers of head and predictor."""
    return settings.hidden or usual_hidden(settings.head, encoder.feature_dim, settings.width)


def initial_weights_notes(settings: ResolvedSettings) -> list[str]:
    """What would become of the weights that a run starts from, found without building anything else.

    Weights that may be fetched are not fetched for that.

    Raises:
        UserError: they cannot be used.
    """
    if settings.init is None:
        return []
    fetched = settings.init == TIMM or is_fetched(settings.init)
    if fetched and settings.download:
        return ["the encoder starts from timm's weights, which are fetched when the run begins"]
    with torch.random.fork_rng(devices=[]):
        return _build_encoder(settings, settings.init)[1]


def _build_encoder(settings: ResolvedSettings, init: str | None) -> tuple[Encoder, list[str]]:
    """The encoder, and what became of the weights that it starts from."""
    encoder = build_encoder(
        settings.encoder,
        image_size=settings.image_size,
        width=settings.width,
        weights=settings.weights,
        any_size=PRESETS[settings.preset].local is not None,
        channels=settings.channels,
    )
    if settings.patches == "frozen":
        freeze_patches(encoder.backbone)
    if settings.positions == "fixed":
        fix_positions(encoder.backbone)
    if settings.statistics == "fixed":
        fix_statistics(encoder.backbone)
    if settings.frozen_stages:
        freeze_stages(encoder.backbone, settings.frozen_stages, settings.encoder)
    if init is None:
        return encoder, []
    found = load_weights(encoder, init, download=settings.download)
    missing = (
        f", {len(found.missing)} stay random ({', '.join(found.missing[:3])} ...)" if found.missing else ""
    )
    return encoder, [f"{len(found.loaded)} tensors of the encoder start from {found.origin}{missing}"]
