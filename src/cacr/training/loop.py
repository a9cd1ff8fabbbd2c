"""The training loop: the main path, to be read from top to bottom."""

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeVar

import torch
from lightning_fabric import Fabric
from rich.console import Console
from torch import Tensor

from cacr.config import PretrainSettings
from cacr.data import ArraySource, Batch
from cacr.encoders import save_encoder
from cacr.errors import UserError
from cacr.losses import NotFiniteError
from cacr.randomness import generator, mixed_seed
from cacr.runs.folder import RunFolder
from cacr.shell import shell_words
from cacr.training.checkpoints import list_checkpoints, save_checkpoint
from cacr.training.interrupt import Interrupt
from cacr.training.job import Position, Training
from cacr.training.meter import Meter
from cacr.training.metrics import MetricsLog
from cacr.training.observer import Observer, Seen
from cacr.training.progress import TrainingProgress

T = TypeVar("T")
AUTO_CHECKPOINT_SECONDS = 20.0
"""With ``checkpoint_every_steps: auto`` the end of an epoch writes one, but not more often than this."""


Ending = Literal["finished", "interrupted", "stopped"]
"""A run was trained to its end, told to stop by a signal, or stopped by its observer."""


class DivergedError(UserError):
    """A figure of the run is not finite any more; ``what`` says which."""

    def __init__(self, run: RunFolder, step: int, what: str) -> None:
        self.what = what
        kept = list_checkpoints(run.checkpoints)
        saved = (
            f"the checkpoint of step {kept[-1][0]} is kept" if kept else "no checkpoint had been written yet"
        )
        init = shell_words("--init", run.path)
        again = f"Start again, with {init} to keep what was learned, and try" if kept else "Try"
        super().__init__(
            f"at step {step} {what}; {saved}.\n{again} a lower --lr, a longer warm-up (--set warmup_epochs=...), "
            "clipping (--set clip_grad=1) or --precision float32"
        )


def train(
    job: Training,
    position: Position,
    console: Console,
    log: MetricsLog | None,
    observer: Observer | None = None,
) -> Ending:
    """Train from ``position`` to the end.

    Args:
        job: what to train.
        position: where to start; moves along.
        console: where progress is shown.
        log: the metrics of the run; None on all ranks but the first.
        observer: looks at the model at the start, after some epochs and at the end.

    Returns:
        How it ended; in each case with a checkpoint written.

    Raises:
        DivergedError: the loss, or a weight that should be saved, is not finite.
    """
    try:
        return _train(job, position, console, log, observer)
    except DivergedError as error:
        if observer:
            observer.diverged(position.step, job.epochs(position), error.what)
        raise


def _train(
    job: Training, position: Position, console: Console, log: MetricsLog | None, observer: Observer | None
) -> Ending:
    settings, fabric = job.settings, job.fabric
    assert isinstance(settings.epochs, int)
    meter = Meter()
    checkpoints = _CheckpointClock(settings)
    job.model.train()
    progress = TrainingProgress(
        console,
        epochs=settings.epochs,
        total_steps=job.total_steps,
        step=position.step,
        enabled=fabric.is_global_zero,
    )
    with Interrupt() as interrupt, progress:
        if observer and position.step == 0:
            untrained = observer.look(0, 0.0, {})
            if log:
                log.write(0, 0.0, untrained.figures)
            meter.restart_clock()
        while position.step < job.total_steps:
            batches = meter.timed(job.loader.epoch(position.epoch, start=position.batch))
            for group in _grouped(batches, settings.accumulate):
                lr = _step(job, position, group, meter)
                position.step += 1
                position.batch += len(group)
                epoch_ended = position.batch >= job.loader.batches_per_epoch
                if epoch_ended:
                    position.epoch, position.batch = position.epoch + 1, 0
                finished = position.step == job.total_steps

                due = checkpoints.due(fabric, position.step, epoch_ended)
                looks = finished or (epoch_ended and observer is not None and observer.due(position.epoch))
                seen: Seen | None = None
                if looks or due or position.step % settings.log_every_steps == 0:
                    if bad := meter.first_not_finite():
                        raise DivergedError(job.run, bad[0], f"the loss is {bad[1]}")
                    figures = meter.read(lr, world_size=fabric.world_size)
                    if observer and looks:
                        seen = observer.look(position.step, job.epochs(position), figures)
                        meter.restart_clock()
                    progress.update(
                        step=position.step,
                        epoch=position.epoch + (not epoch_ended),
                        loss=figures["loss"],
                        images_per_second=figures["images_per_second"],
                        epoch_ended=epoch_ended,
                        seen=seen.short if seen else None,
                    )
                    if log:
                        log.write(
                            position.step, job.epochs(position), figures | (seen.figures if seen else {})
                        )
                if seen is not None and seen.best:
                    _save_encoder(job, position, job.run.best)
                collapsed = seen is not None and seen.stop
                stop = finished or collapsed or _agreed(fabric, interrupt.requested, position.step)
                if stop or due:
                    _save(job, position)
                if stop:
                    return "finished" if finished else "stopped" if collapsed else "interrupted"
    return "finished"


def _step(job: Training, position: Position, group: Sequence[Batch], meter: Meter) -> float:
    """One optimiser step on the averaged gradients of a few batches; returns its learning rate."""
    settings, fabric = job.settings, job.fabric
    lr = job.peak_lr * job.schedule(position.step)
    for parameters in job.optimizer.param_groups:
        parameters["lr"] = lr
    # Dropout and the like draw from torch's own generator: seeded by the step, they need no stored state.
    torch.manual_seed(mixed_seed("model", settings.seed, position.step, fabric.global_rank))
    for number, batch in enumerate(group):
        views = make_views(job, batch, position.epoch, position.batch + number)
        last = number == len(group) - 1
        with fabric.no_backward_sync(job.model, enabled=not last):
            try:
                parts: dict[str, Tensor] = job.model(views)
            except NotFiniteError as error:
                raise DivergedError(job.run, position.step + 1, str(error)) from None
            fabric.backward(parts["loss"] / len(group))
        meter.add(parts, step=position.step + 1, images=len(batch.index))
    if settings.clip_grad is not None:
        fabric.clip_gradients(job.model, job.optimizer, max_norm=settings.clip_grad)
    job.optimizer.step()
    job.optimizer.zero_grad(set_to_none=True)
    job.method.after_step(position.step + 1, job.total_steps)
    return lr


def make_views(job: Training, batch: Batch, epoch: int, number: int) -> list[Tensor]:
    """The views of batch ``number`` of an epoch; what the workers have cropped is only coloured here."""
    draw = generator("views", job.settings.seed, epoch, number, job.fabric.global_rank)
    images = [part.to(job.fabric.device, non_blocking=True) for part in batch.images]
    if isinstance(job.loader.source, ArraySource):
        return job.views(images[0], draw)
    return job.views.colour(images, draw)


def _save(job: Training, position: Position) -> None:
    """Write checkpoint and encoder from the first rank; the others wait, so that none runs ahead of it.

    Raises:
        DivergedError: when the weights are not finite, so that a good checkpoint is never replaced by a bad one.
    """
    if job.fabric.is_global_zero:
        if not all(bool(torch.isfinite(p).all()) for p in job.method.parameters()):
            raise DivergedError(job.run, position.step, "the weights are not finite")
        state = job.state(position) | {"diagnostics": job.run.last_measured()}
        save_checkpoint(job.run.checkpoints, position.step, state)
        _save_encoder(job, position, job.run.path)
    job.fabric.barrier()


def _save_encoder(job: Training, position: Position, folder: Path) -> None:
    """Write the encoder, with what was last measured of it."""
    encoder = job.method.encoder
    training = job.summary(position) | {"diagnostics": job.run.last_measured()}
    save_encoder(folder, encoder, replace(encoder.info, training=training))


def _agreed(fabric: Fabric, stop: bool, step: int) -> bool:
    """Whether any process was asked to stop; all of them answer alike and stop together."""
    if fabric.world_size == 1:
        return stop
    if fabric.device.type == "cuda" and step % 10:  # asking makes the device wait
        return False
    wishes = fabric.all_reduce(torch.tensor(float(stop), device=fabric.device), reduce_op="sum")
    assert isinstance(wishes, Tensor)
    return bool(wishes > 0)


def _grouped(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while group := list(itertools.islice(iterator, size)):
        yield group


class _CheckpointClock:
    """Decides when a checkpoint is due."""

    def __init__(self, settings: PretrainSettings) -> None:
        every = settings.checkpoint_every_steps
        self._every = None if every == "auto" else every
        self._last = time.monotonic()

    def due(self, fabric: Fabric, step: int, epoch_ended: bool) -> bool:
        if self._every is not None:
            return step % self._every == 0
        if not epoch_ended:
            return False
        # Clocks differ, and all processes must save together: the first one decides.
        due = bool(fabric.broadcast(time.monotonic() - self._last >= AUTO_CHECKPOINT_SECONDS))
        if due:
            self._last = time.monotonic()
        return due
