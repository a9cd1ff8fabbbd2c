"""Pretraining, from settings to a run folder: data, encoder, objective, loop, encoder file."""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import torch
from lightning_fabric import Fabric
from rich.console import Console

from cacr.config import RESUMABLE, PretrainSettings
from cacr.data import SOURCES, ArraySource, Loader, Problem, Source, imbalanced, open_source, prepare
from cacr.encoders import (
    build_encoder,
    build_head,
    build_predictor,
    fix_positions,
    freeze_patches,
    is_transformer,
    load_weights,
    share_statistics,
)
from cacr.encoders.heads import usual_hidden
from cacr.errors import SettingsError, UserError
from cacr.files import check_format, write_atomically
from cacr.frameworks import FRAMEWORKS, Framework, describe_chunks
from cacr.losses import OBJECTIVES
from cacr.reading.files import kind_of, user_path
from cacr.runs.folder import RunFolder
from cacr.runs.run import Run
from cacr.shell import resume_command, shell_words
from cacr.terminal import CleanConsole
from cacr.training.announce import announce
from cacr.training.check import check_settings
from cacr.training.checkpoints import State, load_latest
from cacr.training.held_out import HeldOut, hold_out
from cacr.training.job import Position, Training
from cacr.training.launch import launch, processes
from cacr.training.loop import train
from cacr.training.memory import kept_memory
from cacr.training.metrics import MetricsLog
from cacr.training.observer import Observer
from cacr.training.optimizers import build_optimizer
from cacr.training.recipes import with_recipe
from cacr.training.resolve import Described, describe, resolve, run_length
from cacr.training.schedules import build_schedule
from cacr.views import PRESETS, Preset, Views
from cacr.views.presets import shorter_side

Status = Literal["finished", "interrupted", "stopped", "already finished"]


@dataclass(frozen=True)
class Outcome:
    """How a pretraining ended.

    Attributes:
        run: the run folder.
        status: ``interrupted`` by a signal, or ``stopped`` by the diagnostics (``on_collapse``): such runs have a
            checkpoint and can be resumed.
        step: optimiser steps made in all.
    """

    run: Path
    status: Status
    step: int


Observe = Callable[[Training, Source, Console], Observer]
"""Makes the observer of a run from the run itself, the images to measure on, and where to print."""


def pretrain(
    values: Mapping[str, Any], out: Path, *, resume: bool = False, observe: Observe | None = None
) -> Outcome:
    """Pretrain an encoder.

    Args:
        values: settings by name, as in :class:`cacr.config.PretrainSettings`, with the options of the
            objective and of the view preset among them; what is not given has its default.
        out: the run folder: absent or empty, or with ``resume`` that of the run to continue.
        resume: continue the run in ``out``, or start it where there is none yet.
        observe: makes what looks at the model now and then; a function of a module, because other processes
            call it too.
    """
    run = RunFolder(out)
    resuming = resume and run.config.exists()
    if resuming:
        settings = _settings_of_resumed(run, values)
    else:
        run.require_new()
        settings = _with_absolute_path(check_settings(with_recipe(values)))
    # Wrong data, and settings that do not fit it, are found here, once, before any process or folder exists.
    source = open_data(settings)
    if not resuming:
        resolve_for(settings, source, processes(settings), torch.device("cpu"))
    with torch.random.fork_rng():  # a caller's own random numbers stay what they were
        status, step = launch(_train_run, settings, run, resuming, observe)
    return Outcome(out, status, step)


def _settings_of_resumed(run: RunFolder, values: Mapping[str, Any]) -> PretrainSettings:
    """The settings of the run, with those replaced that may change; others must be what they were."""
    stored = Run.open(run.path).settings
    given = {name: value for name, value in values.items() if value != "auto"}
    merged = check_settings({**stored.model_dump(), **given})
    changed = [
        name
        for name in PretrainSettings.model_fields
        if name not in RESUMABLE and getattr(merged, name) != getattr(stored, name)
    ]
    if changed:
        raise SettingsError(
            [
                f"{name} was {getattr(stored, name)!r} in {run.path}, a resumed run cannot change it to "
                f"{getattr(merged, name)!r}"
                for name in changed
            ]
        )
    return merged


def _with_absolute_path(settings: PretrainSettings) -> PretrainSettings:
    """A folder by its full path, so that the run can be resumed from anywhere."""
    if settings.data in SOURCES:
        return settings
    path = user_path(settings.data)
    return settings if kind_of(path) is None else settings.model_copy(update={"data": str(path.resolve())})


def open_data(settings: PretrainSettings) -> Source:
    """The images to train on, as the settings name them."""
    return open_source(settings.data, part="pretrain", root=settings.data_root, download=settings.download)


def _train_run(
    fabric: Fabric, settings: PretrainSettings, run: RunFolder, resuming: bool, observe: Observe | None
) -> tuple[Status, int]:
    """Everything that happens in each process; nothing is written before all of it is known to fit."""
    console = CleanConsole(quiet=not fabric.is_global_zero)
    data = _prepare_data(settings, run, resuming)
    asked = settings
    settings, _ = _resolve(asked, data.held_out, fabric.world_size, fabric.device)
    state = load_latest(run.checkpoints, warn=console.print) if resuming else None
    # Weights from elsewhere are for the start only: they need not exist any more when a run is resumed.
    job = _build(fabric, settings, run, data.source, init=settings.init if state is None else None)
    position = _restore(job, state)
    if position.step >= job.total_steps:
        limit = f" (max_steps is {settings.max_steps})" if settings.max_steps else ""
        console.print(f"{run.path} is already finished, at step {position.step}{limit}: nothing to do")
        return "already finished", position.step
    log = None
    with ExitStack() as stack:
        if fabric.is_global_zero:
            run.create()
            stack.enter_context(run.locked())
            data.record(run)
            run.drop_metrics_after(position.step)
            run.write_settings(settings, _versions())
            log = MetricsLog(run.metrics, settings)
        observed = observe is not None and settings.measure_every_epochs != 0
        notes = [*data.notes(run, observed), *_choices(asked, settings), *job.notes]
        announce(console, job, data.source, notes, position)
        stack.callback(job.loader.close)
        if fabric.device.type == "cpu":
            stack.enter_context(kept_memory())
        observer = observe(job, data.held_out.source, console) if observe and observed else None
        status = train(job, position, console, log, observer)
        if fabric.is_global_zero and (later := job.loader.unreadable.values()):
            data.record(run, later)
            console.print(f"{len(later)} images turned out unreadable; they are listed in {run.unreadable}")
    if status != "finished":
        console.print(
            f"stopped at step {position.step}; continue with: {resume_command(run.path)}", soft_wrap=True
        )
    return status, position.step


@dataclass(frozen=True)
class _Data:
    """The images to train and to measure on, what was left out, and which an imbalance rule kept."""

    held_out: HeldOut
    problems: tuple[Problem, ...]
    kept: list[int] | None

    @property
    def source(self) -> Source:
        """The images to train on."""
        return self.held_out.training

    def record(self, run: RunFolder, found_later: Iterable[Problem] = ()) -> None:
        problems = [*self.problems, *found_later]
        if problems:
            lines = "".join(f"{problem}\n" for problem in problems)
            write_atomically(run.unreadable, lines.encode(errors="surrogateescape"))
        if self.kept is not None:
            write_atomically(run.indices, json.dumps(self.kept).encode())
        self.held_out.record(run)

    def notes(self, run: RunFolder, observed: bool) -> list[str]:
        left_out = f"{len(self.problems)} unreadable images are left out; they are listed in {run.unreadable}"
        notes = [*self.source.notes, *([left_out] if self.problems else [])]
        return [*notes, self.held_out.note] if observed or self.held_out.taken else notes


def _prepare_data(settings: PretrainSettings, run: RunFolder, resuming: bool) -> _Data:
    prepared = prepare(open_data(settings), max_unreadable=settings.max_unreadable)
    source, kept = _unbalanced(prepared.source, settings)
    return _Data(hold_out(source, settings, run if resuming else None), prepared.problems, kept)


def _unbalanced(source: Source, settings: PretrainSettings) -> tuple[Source, list[int] | None]:
    """What an imbalance rule leaves of the images, and which these are, if there is one."""
    if settings.imbalance == "none":
        return source, None
    left, indices = imbalanced(source, settings.imbalance, settings.imbalance_seed)
    return left, indices.tolist()


def resolve_for(
    settings: PretrainSettings, source: Source, world_size: int, device: torch.device
) -> tuple[PretrainSettings, Described]:
    """Settings of a new run as they will be, and the images that it will train on, if every file can be read."""
    return _resolve(settings, hold_out(_unbalanced(source, settings)[0], settings), world_size, device)


def _resolve(
    settings: PretrainSettings, division: HeldOut, world_size: int, device: torch.device
) -> tuple[PretrainSettings, Described]:
    """Resolved settings, and the images that are trained on."""
    described = describe(division.training)
    taken, measured = len(division.taken), len(division.source)
    resolved = resolve(
        settings, described, world_size=world_size, device=device, held_out=taken, measured=measured
    )
    return resolved, described


def preset_of(settings: PretrainSettings) -> Preset:
    """The view preset, at the size and with the options that resolved settings ask for."""
    assert isinstance(settings.image_size, int)
    return PRESETS[settings.preset].resized(settings.image_size).with_options(**settings.view_options)


def make_views_of(settings: PretrainSettings, device: torch.device | None = None) -> Views:
    """What makes the views of resolved settings."""
    assert isinstance(settings.views, int)
    preset = preset_of(settings)
    return Views(preset.for_views(settings.views), preset.mean, preset.std, device=device)


def _build(
    fabric: Fabric, settings: PretrainSettings, run: RunFolder, source: Source, init: str | None
) -> Training:
    """Loader, views, model, optimiser and schedule from resolved settings."""
    assert isinstance(settings.batch_size, int) and isinstance(settings.views, int)
    assert isinstance(settings.image_size, int) and isinstance(settings.epochs, int)
    assert isinstance(settings.lr, float) and isinstance(settings.warmup_epochs, float)
    assert isinstance(settings.workers, int)
    preset, views = preset_of(settings), make_views_of(settings, fabric.device)
    loader = Loader(
        source,
        batch_size=settings.batch_size,
        seed=settings.seed,
        rank=fabric.global_rank,
        world_size=fabric.world_size,
        workers=settings.workers,
        crop=None if isinstance(source, ArraySource) else views.crop,
        at_least=views.at_least,
        max_unreadable=settings.max_unreadable,
        pin_memory=fabric.device.type == "cuda",
    )
    length = run_length(loader.batches_per_epoch, settings.epochs, settings)
    notes: list[str] = []
    method = build_method(settings, init, notes)
    encoder = method.encoder
    encoder.info = replace(
        encoder.info,
        resize=shorter_side(settings.image_size),
        mean=preset.mean,
        std=preset.std,
        preset=preset.name,
    )
    if settings.sync_batch_norm:
        share_statistics(method)
    optimizer = build_optimizer(settings, method)
    if settings.channels_last:
        method = method.to(memory_format=torch.channels_last)
    model, wrapped = fabric.setup(method, optimizer)
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
        ),
        peak_lr=settings.lr,
        total_steps=length.total,
        notes=tuple(notes),
    )


def build_method(settings: PretrainSettings, init: str | None, notes: list[str]) -> Framework:
    """The framework, its encoder and objective from resolved settings; the seed alone decides the weights.

    Args:
        settings: without ``auto``.
        init: where the encoder's weights start from: a run, a weights file, ``timm``, or None for random ones.
        notes: receives what the user should know about how it was built.
    """
    assert isinstance(settings.image_size, int) and isinstance(settings.width, float)
    assert isinstance(settings.dim, int)
    torch.manual_seed(settings.seed)
    pretrained = init == "timm"
    if pretrained and not settings.download:
        raise UserError("--init timm fetches weights from the network: allow it with --download")
    local = PRESETS[settings.preset].local is not None
    encoder = build_encoder(
        settings.encoder,
        image_size=settings.image_size,
        width=settings.width,
        pretrained=pretrained,
        any_size=local,
    )
    if settings.patches == "frozen":
        freeze_patches(encoder.backbone)
    if settings.positions == "fixed":
        fix_positions(encoder.backbone)
    if init and not pretrained:
        found = load_weights(encoder, init)
        missing = (
            f", {len(found.missing)} stay random ({', '.join(found.missing[:3])} ...)"
            if found.missing
            else ""
        )
        notes.append(f"{len(found.loaded)} tensors of the encoder start from {init}{missing}")
    hidden = settings.hidden or usual_hidden(settings.head, encoder.feature_dim, settings.width)
    head = build_head(settings.head, encoder.feature_dim, settings.dim, hidden)
    objective = OBJECTIVES[settings.objective](**settings.objective_options)
    framework, options = FRAMEWORKS[settings.framework], dict(settings.framework_options)
    if framework.has_predictor:
        last_norm = is_transformer(settings.encoder)
        options["predictor"] = build_predictor(settings.dim, hidden, last_norm=last_norm)
    # mypy sees the base class, whose constructor is nn.Module's
    make: Callable[..., Framework] = framework
    method = make(encoder, head, objective, batch_norm=settings.batch_norm, **options)
    method.exchange, method.encode_chunk = settings.exchange, settings.encode_chunk
    if settings.encode_chunk is not None:
        notes.append(describe_chunks(method, settings.encode_chunk))
    return method


def _choices(asked: PretrainSettings, settings: PretrainSettings) -> list[str]:
    """What became of ``auto``."""
    chosen = {name: value for name, value in settings if getattr(asked, name) == "auto" and value != "auto"}
    for own, given in (
        (settings.framework_options, asked.framework_options),
        (settings.objective_options, asked.objective_options),
    ):
        chosen |= {name: value for name, value in own.items() if name not in given}
    return (
        ["chosen for you: " + " ".join(f"{name}={value}" for name, value in chosen.items())] if chosen else []
    )


def _restore(job: Training, state: State | None) -> Position:
    if state is None:
        return Position()
    check_format(state["format"], job.run.checkpoints)
    images = len(job.loader.source)
    if state["images"] != images:
        raise UserError(
            f"{job.run.path} was trained on {state['images']:,} images, but {job.settings.data} now has "
            f"{images:,}: a run can be resumed on the same data only; start another, with "
            f"{shell_words('--init', job.run.path)} to keep what was learned"
        )
    try:
        return job.restore(state)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        raise UserError(
            f"the checkpoint in {job.run.checkpoints} does not fit the settings beside it: another version of cacr "
            f"wrote it. Resume with that version, or start another run with "
            + shell_words("--init", job.run.path)
        ) from error


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("cacr", "torch", "torchvision", "timm", "lightning-fabric")}
