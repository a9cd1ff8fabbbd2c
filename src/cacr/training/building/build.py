"""Build the objects of the training loop from resolved settings: views, loader, model, optimiser, schedule."""

from dataclasses import replace
from functools import partial

import torch

from cacr.config import ResolvedSettings
from cacr.data import Loader, Source
from cacr.encoders import share_statistics
from cacr.feature_view import FeatureView
from cacr.runs.folder import RunFolder
from cacr.training.building.first_layer import filters_from_images
from cacr.training.building.job import Training
from cacr.training.building.kept import keep_features
from cacr.training.building.networks import build_method
from cacr.training.optimization.average import Average
from cacr.training.optimization.optimizers import build_optimizer
from cacr.training.optimization.schedules import build_schedule
from cacr.training.processes.fabric import Fabric
from cacr.training.settings.resolve import run_length
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
    """Build everything that the training loop needs.

    Args:
        fabric: the process, its device and its precision.
        settings: settings of the run.
        run: its folder.
        source: the images to train on.
        new: whether the run starts here; a resumed run gets its weights from a checkpoint.
    """
    preset, views = preset_of(settings), make_views_of(settings, fabric.device)
    # Only a new run needs initial weights and images for them: they may be gone when a run is resumed.
    filters = partial(filters_from_images, fabric, settings, preset, source) if new else None
    init = settings.init if new else None
    if not new and settings.framework_options.get("image_trained") is False:
        init = str(run.path)  # stored features are computed below, before the checkpoint is loaded
    method, notes = build_method(settings, init, filters)
    encoder, seen = method.encoder, feature_view_of(settings)
    encoder.info = replace(
        encoder.info,
        image_size=seen.size,
        resize=seen.resize,
        interpolation=seen.interpolation,
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
    """The view preset, with the size and options of the settings."""
    return PRESETS[settings.preset].resized(settings.image_size).with_options(**settings.view_options)


def feature_view_of(settings: ResolvedSettings) -> FeatureView:
    """The images whose features are computed: centre crops, as large as views if not set otherwise."""
    size = settings.image_size
    return settings.feature_view or FeatureView(size=size, resize=shorter_side(size))


def make_views_of(settings: ResolvedSettings, device: torch.device | None = None) -> Views:
    """The object that makes the views of a run."""
    preset = preset_of(settings)
    return Views(
        preset.for_views(settings.views, settings.weak_views),
        preset.mean,
        preset.std,
        device=device,
        global_views=preset.global_views(settings.views),
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
    """The batches of a run for this process."""
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
