"""Messages before step 1 (data, views, negatives, cost), and when a run stops early."""

from collections.abc import Sequence

import torch
from rich.console import Console

from cacr.config import ResolvedSettings
from cacr.data import Source
from cacr.durations import duration
from cacr.runs.folder import RunFolder
from cacr.shell import resume_command
from cacr.training.building.build import preset_of
from cacr.training.building.job import Position, Training
from cacr.training.cost.need import Need
from cacr.training.cost.noise import measure_cost
from cacr.training.optimization.optimizers import RATE_BATCH
from cacr.training.settings.resolve import keyed_views
from cacr.training.settings.rules import NARROW

LONG_RUN = 3600.0
"""Seconds on a CPU; for a longer run a narrower encoder is suggested."""


def announce(
    console: Console,
    job: Training,
    source: Source,
    notes: Sequence[str],
    position: Position,
    need: Need,
) -> None:
    """Print the facts of a run. Every process must call this, because the cost is measured."""
    settings = job.settings
    cost = measure_cost(job, source)
    steps = (job.total_steps - position.step) * settings.accumulate
    parameters = sum(p.numel() for p in job.method.parameters() if p.requires_grad)
    options, framework_options = (
        "".join(f" {name}={value}" for name, value in chosen.items())
        for chosen in (settings.objective_options, settings.framework_options)
    )
    classes = source.class_counts()
    about = f"{len(source):,} images" + (f" in {len(classes)} classes" if classes else ", no labels")
    length = f"at most {settings.max_steps:,} steps" if settings.max_steps else f"{settings.epochs} epochs"
    scaled = f", {settings.accumulate} batches per step" if settings.accumulate > 1 else ""
    lines = {
        "data": f"{source.name}: {about}",
        "views": views_text(settings),
        "encoder": f"{settings.encoder}, {_width(job)}{parameters / 1e6:.2f} M trained parameters with the head",
        "method": settings.method or "none (custom settings)",
        "objective": f"{settings.objective}{options}",
        "framework": f"{settings.framework}{framework_options}",
        "negatives": job.method.negatives_text(
            settings.batch_size, keyed_views(settings), accumulate=settings.accumulate
        ),
        "steps": f"{job.total_steps:,} ({length}), batches of {settings.batch_size}{scaled}",
        "optimiser": f"{settings.optimizer}, lr {rate_text(settings)}, weight decay {settings.weight_decay:g}, "
        f"{settings.schedule}, warm-up {settings.warmup_epochs:g} epochs",
        "memory": need.in_words(),
        "time": f"about {duration(cost.seconds * steps)} on {_machine(job)}",
    }
    if position.step:
        lines["resumed"] = f"at step {position.step:,}"
    for name, text in lines.items():
        console.print(f"{name:<10} {text}", soft_wrap=True)
    for note in notes:
        console.print(f"note: {note}", soft_wrap=True)
    if job.fabric.device.type == "cpu" and settings.time is None and cost.seconds * steps > LONG_RUN:
        console.print(f"note: {_advice(job)}", soft_wrap=True)


def announce_stop(console: Console, run: RunFolder, position: Position, *, by_diagnostics: bool) -> None:
    """Print where a run stopped early, and the command that continues it."""
    # Without this option, the diagnostics would stop the run again.
    options = ("--on-collapse", "warn") if by_diagnostics else ()
    again = resume_command(run.path, *options)
    console.print(f"stopped at step {position.step}; continue with: {again}", soft_wrap=True)


def views_text(settings: ResolvedSettings) -> str:
    """Describe the views of a run."""
    options = "".join(f" {name}={value}" for name, value in settings.view_options.items())
    preset = preset_of(settings)
    number = preset.global_views(settings.views)
    local = settings.views - number
    crops = f" and {local} local crops, {preset.local.size} px" if preset.local is not None and local else ""
    seen = f"; features from images of {settings.feature_view}" if settings.feature_view else ""
    return f"{number} per image, {settings.image_size} px{crops}, preset {settings.preset}{options}{seen}"


def _width(job: Training) -> str:
    return "" if job.settings.width == 1 else f"width {job.settings.width:g}, "


def _machine(job: Training) -> str:
    fabric = job.fabric
    processes = f"{fabric.world_size} processes on " if fabric.world_size > 1 else ""
    cores = f" ({torch.get_num_threads()} threads each)" if fabric.device.type == "cpu" else ""
    return f"{processes}{fabric.device.type}{cores}, {job.settings.precision}"


def _advice(job: Training) -> str:
    """Suggest how to make a long run on a CPU shorter."""
    settings = job.settings
    faster = "to save time, use --time 1h, fewer --epochs or fewer --views"
    if settings.encoder != "small_alexnet":
        faster = f"--encoder small_alexnet --width {NARROW:g} --set image_size=64 is several times faster"
    elif settings.width > NARROW:
        faster = f"--width {NARROW:g} is several times faster"
    return f"this takes more than an hour on a CPU; {faster}"


def rate_text(settings: ResolvedSettings) -> str:
    """The peak learning rate, and its value for a batch of 256: the rate is proportional to the batch."""
    images = settings.batch_size * settings.accumulate
    return f"{settings.lr:.4g} (= {settings.lr * RATE_BATCH / images:.4g} x {images} / {RATE_BATCH})"
