"""The training loop; read it from top to bottom."""

import itertools
import math
import time
from collections.abc import Generator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

import torch
from rich.console import Console
from torch import Tensor

from cacr.config import ResolvedSettings
from cacr.data import Batch
from cacr.losses import NotFiniteError
from cacr.randomness import mixed_seed
from cacr.training.building.checkpoints import list_checkpoints, save_checkpoint
from cacr.training.building.job import Position, Training
from cacr.training.loop.diverged import DivergedError
from cacr.training.loop.encoder_files import write_encoder
from cacr.training.loop.figures import Figures
from cacr.training.loop.inputs import model_input
from cacr.training.loop.interrupt import Interrupt
from cacr.training.loop.memory import kept_memory
from cacr.training.loop.meter import Meter
from cacr.training.loop.metrics import MetricsLog
from cacr.training.loop.observer import Observer, Seen
from cacr.training.processes.fabric import Fabric

AUTO_CHECKPOINT_SECONDS = 20.0
"""With ``checkpoint_every_steps: auto``, checkpoints are written at the end of an epoch, at least this far apart."""


Ending = Literal["finished", "interrupted", "stopped"]
"""How a run ended: finished, stopped by a signal, or stopped by its observer."""


def train(
    job: Training,
    position: Position,
    console: Console,
    log: MetricsLog | None,
    observer: Observer | None,
    measured: dict[str, Any],
) -> Ending:
    """Train from ``position`` to the end.

    Args:
        job: what to train.
        position: where to start; it is updated.
        console: where progress is shown.
        log: the metrics of the run; None on all ranks except the first.
        observer: measures the model at the start, after some epochs and at the end.
        measured: the last measurement of a resumed run.

    Returns:
        How the run ended; a checkpoint is always written.

    Raises:
        DivergedError: the loss, or a weight to be saved, is not finite.
    """
    try:
        with kept_memory() if job.fabric.device.type == "cpu" else nullcontext():
            return _train(job, position, Figures(job, position, console, log, observer, measured))
    except DivergedError as error:
        if observer:
            observer.diverged(position.step, job.epochs(position), error.what)
        raise


def _train(job: Training, position: Position, figures: Figures) -> Ending:
    checkpoints = _CheckpointClock(job.settings)
    job.model.train()
    with figures.progress, Interrupt(lambda: figures.progress.tell(_stopping(job))) as interrupt:
        if position.step == 0:
            _save_start(job, position)
            figures.at_start()
        for group in groups(job, position, figures.meter):
            lr = take_step(job, position, group, figures.meter)
            position.advance(len(group), job.loader.batches_per_epoch)
            due = checkpoints.due(job.fabric, position)
            seen = figures.after_step(position, lr, saving=due)
            if seen is not None and seen.best:
                _keep(job, position, job.run.best, figures.measured)
            ending = _ending(job, position, seen, interrupt)
            if due or ending:
                _save(job, position, figures.measured)
            if ending:
                return ending
            if due or seen is not None:
                figures.restart_clocks()
    return "finished"


def groups(job: Training, position: Position, meter: Meter) -> Generator[list[Batch], None, None]:
    """The batches of each step from ``position`` to the end; the caller updates ``position``."""
    per_epoch, accumulate = job.loader.batches_per_epoch, job.settings.accumulate
    epochs = range(position.epoch, math.ceil(job.total_steps / math.ceil(per_epoch / accumulate)))
    batches = meter.timed(job.loader.epochs(epochs, start=position.batch))
    while position.step < job.total_steps:
        yield list(itertools.islice(batches, min(accumulate, per_epoch - position.batch)))


def _ending(job: Training, position: Position, seen: Seen | None, interrupt: Interrupt) -> Ending | None:
    """How the run ends after this step; None if it continues."""
    if position.step == job.total_steps:
        return "finished"
    if seen is not None and seen.stop:
        return "stopped"
    return "interrupted" if _agreed(job.fabric, interrupt.requested, position.step) else None


def _stopping(job: Training) -> str:
    """The message after Ctrl-C."""
    kept = list_checkpoints(job.run.checkpoints)
    lost = f"the steps after checkpoint {kept[-1][0]} are lost" if kept else "all steps are lost"
    return f"finishing this step, saving ... (Ctrl-C again ends at once, and {lost})"


def take_step(job: Training, position: Position, group: Sequence[Batch], meter: Meter) -> float:
    """Do one optimiser step with the averaged gradients of some batches; return its learning rate."""
    settings, fabric = job.settings, job.fabric
    lr = job.set_rates(position)
    job.method.before_step(position.step, job.total_steps, position.epoch)
    # Dropout and similar layers use torch's own generator. It is seeded by the step, so no state has to be stored.
    torch.manual_seed(mixed_seed("model", settings.seed, position.step, fabric.global_rank))
    for number, batch in enumerate(group):
        place = settings.seed, position.epoch, position.batch + number, fabric.global_rank
        views = model_input(job, batch, *place)
        last = number == len(group) - 1
        with fabric.no_backward_sync(job.model, enabled=not last):
            try:
                parts: dict[str, Tensor] = job.model(views)
            except NotFiniteError as error:
                raise DivergedError(job.run, position.step + 1, str(error)) from None
            fabric.backward(parts["loss"] / len(group))
        meter.add(parts, step=position.step + 1, images=len(batch.index))
    job.method.hold_gradients()
    if settings.clip_grad is not None:
        fabric.clip_gradients(job.model, job.optimizer, max_norm=settings.clip_grad)
    job.optimizer.step()
    job.optimizer.zero_grad(set_to_none=True)
    job.method.after_step(position.step + 1, job.total_steps)
    if job.average is not None:
        job.average.follow()
    return lr


def _save(job: Training, position: Position, measured: dict[str, Any]) -> None:
    """Write checkpoint and encoder from the first rank; the other ranks wait.

    Raises:
        DivergedError: the weights are not finite; a good checkpoint is never replaced by a bad one.
    """
    if job.fabric.is_global_zero:
        if not all(bool(torch.isfinite(p).all()) for p in job.method.parameters()):
            raise DivergedError(job.run, position.step, "the weights are not finite")
        # The encoder first: if the process ends between the two, the steps are repeated, and the last checkpoint of a
        # run
        # always has its encoder.
        _keep(job, position, job.run.path, measured)
        state = job.state(position) | {"diagnostics": measured}
        save_checkpoint(job.run.checkpoints, position.step, state)
    job.fabric.barrier()


def _keep(job: Training, position: Position, folder: Path, measured: dict[str, Any]) -> None:
    with job.kept_weights():
        write_encoder(job, position, folder, measured)


def _save_start(job: Training, position: Position) -> None:
    """Write the encoder before the first step, to compare it with the trained one."""
    if job.fabric.is_global_zero:
        _keep(job, position, job.run.start, {})


def _agreed(fabric: Fabric, stop: bool, step: int) -> bool:
    """Whether any process was asked to stop; the answer is the same in all processes, so they stop together."""
    if fabric.world_size == 1:
        return stop
    if fabric.device.type == "cuda" and step % 10:  # communication makes the device wait
        return False
    wishes = fabric.all_reduce(torch.tensor(float(stop), device=fabric.device), reduce_op="sum")
    assert isinstance(wishes, Tensor)
    return bool(wishes > 0)


class _CheckpointClock:
    """Decides when to write a checkpoint."""

    def __init__(self, settings: ResolvedSettings) -> None:
        every = settings.checkpoint_every_steps
        self._every = None if every == "auto" else every
        self._last = time.monotonic()

    def due(self, fabric: Fabric, position: Position) -> bool:
        if self._every is not None:
            return position.step % self._every == 0
        if not position.epoch_ended:
            return False
        # Clocks differ, but all processes must save together: the first one decides.
        due = bool(fabric.broadcast(time.monotonic() - self._last >= AUTO_CHECKPOINT_SECONDS))
        if due:
            self._last = time.monotonic()
        return due
