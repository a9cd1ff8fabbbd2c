"""Metrics of a run: averaged, measured by the observer, logged and shown."""

from typing import Any

from rich.console import Console

from cacr.runs.summary import MEASURED
from cacr.training.building.job import Position, Training
from cacr.training.loop.diverged import DivergedError
from cacr.training.loop.memory import give_back
from cacr.training.loop.meter import Meter
from cacr.training.loop.metrics import MetricsLog
from cacr.training.loop.observer import Observer, Seen
from cacr.training.loop.progress import TrainingProgress
from cacr.training.settings.resolve import run_length


class Figures:
    """Collects the metrics of a run and shows its progress.

    Args:
        job: the run.
        console: where progress is shown.
        log: where metrics are written; None on all ranks except the first.
        observer: measures the model at the start, after some epochs and at the end; None for no measurements.
        measured: the last measurement of a resumed run.

    Attributes:
        meter: averages the parts of the loss.
        progress: the progress bar.
        measured: the last measurement without labels, and its step: :data:`MEASURED`; empty if there is none.
    """

    def __init__(
        self,
        job: Training,
        position: Position,
        console: Console,
        log: MetricsLog | None,
        observer: Observer | None,
        measured: dict[str, Any],
    ) -> None:
        self._job, self._log, self._observer = job, log, observer
        self.meter = Meter()
        length = run_length(job.loader.batches_per_epoch, job.settings.epochs, job.settings)
        self.progress = TrainingProgress(
            console,
            epochs=-(-length.total // length.per_epoch),  # max_steps may end it earlier
            total_steps=job.total_steps,
            step=position.step,
            epoch=position.epoch,
            enabled=job.fabric.is_global_zero,
        )
        self.measured = measured

    def at_start(self) -> None:
        """Measure the untrained model."""
        if self._observer:
            self.progress.begin("measuring the untrained encoder")
            self._write(0, 0.0, self._look(self._observer, 0, 0.0, {}).figures)

    def _look(self, observer: Observer, step: int, epoch: float, figures: dict[str, float]) -> Seen:
        give_back()
        with self._job.kept_weights():
            seen = observer.look(step, epoch, figures)
        give_back()
        self.restart_clocks()
        return seen

    def restart_clocks(self) -> None:
        """Exclude the time until now from the speed, because it was not spent on steps."""
        self.meter.restart_clock()
        self.progress.pace.skip()

    def after_step(self, position: Position, lr: float, *, saving: bool) -> Seen | None:
        """Log and measure if it is time to, or if a checkpoint will be saved.

        Args:
            position: position after the step.
            lr: learning rate of the step.
            saving: whether a checkpoint will be saved.

        Returns:
            The measurement of the observer; None if there was none.

        Raises:
            DivergedError: a loss since the last call is not finite.
        """
        self.progress.pace.step(self._job.fabric.world_size * self.meter.images_of_step)
        looks = self._looks(position)
        if not (looks or saving or position.step % self._job.settings.log_every_steps == 0):
            if self.progress.due:
                self._show(position, self.meter.loss())
            return None
        if bad := self.meter.first_not_finite():
            raise DivergedError(self._job.run, bad[0], f"the loss is {bad[1]}")
        epoch, figures = (
            self._job.epochs(position),
            self.meter.read(lr, world_size=self._job.fabric.world_size),
        )
        seen = None
        if looks and self._observer:
            seen = self._look(self._observer, position.step, epoch, figures)
        self._show(position, figures["loss"], seen)
        self._write(position.step, epoch, figures | (seen.figures if seen else {}))
        return seen

    def _show(self, position: Position, loss: float, seen: Seen | None = None) -> None:
        epoch = position.epoch + (not position.epoch_ended)
        self.progress.update(step=position.step, epoch=epoch, loss=loss, seen=seen.short if seen else None)

    def _looks(self, position: Position) -> bool:
        """Whether the observer should measure now; the last metrics are logged in any case."""
        if position.step == self._job.total_steps:
            return True
        return self._observer is not None and self._observer.due(position)

    def _write(self, step: int, epoch: float, values: dict[str, float]) -> None:
        if self._log:
            self._log.write(step, epoch, values)
        if "effective_rank" in values:
            row = {"step": step, "epoch": epoch, **values}
            self.measured = {name: value for name, value in row.items() if name in MEASURED}
