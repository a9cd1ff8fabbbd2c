"""Train a linear classifier every few epochs or steps, to see how fast features improve (``probe_every_epochs``)."""

from collections.abc import Mapping

from rich.console import Console

from cacr.config import EvaluateSettings
from cacr.data import Source
from cacr.diagnostics.observer import RunObserver
from cacr.diagnostics.observer import observe as observe_run
from cacr.evaluation.data.labelled import open_labelled
from cacr.evaluation.data.task import Task
from cacr.evaluation.protocols.linear import LinearSettings, linear
from cacr.features.machine import choose_machine
from cacr.made import make
from cacr.training.building.job import Position, Training
from cacr.training.loop.observer import Observer, Seen


def observe(job: Training, source: Source, console: Console) -> Observer:
    """The observer of a run; with ``probe_every_epochs`` or ``probe_every_steps`` it also trains classifiers."""
    observer = observe_run(job, source, console)
    if job.settings.probe_every_epochs or job.settings.probe_every_steps:
        return ProbingObserver(observer, job)
    return observer


class ProbingObserver:
    """Logs ``probe``, the accuracy of ``cacr evaluate --protocol linear``, every few epochs or steps.

    The start and the end of the run are always probed.

    The classifier is trained on all labelled training images of the data, also if an imbalance rule reduces the
    images for the encoder, and tested on the test part. It does not influence the training of the encoder.

    Args:
        observer: measures whenever this one does, and when it is due itself.
        job: the run.

    Raises:
        UserError: the data has no labels.
    """

    def __init__(self, observer: RunObserver, job: Training) -> None:
        self._observer, self._job = observer, job
        settings = job.settings
        where = {"data_root": settings.data_root, "download": settings.download}
        self._data = open_labelled(
            make(EvaluateSettings, {"data": settings.data, "seed": settings.seed, **where})
        )

    def due(self, position: Position) -> bool:
        """Whether to measure after this step."""
        return self._observer.due(position) or self._probes(position.step, self._job.epochs(position))

    def look(self, step: int, epoch: float, figures: Mapping[str, float]) -> Seen:
        """Measure as the diagnostics do, and measure accuracy when it is time to."""
        probed = {"probe": self._accuracy()} if self._probes(step, epoch) else {}
        seen = self._observer.look(step, epoch, {**figures, **probed})
        return seen._replace(figures={**seen.figures, **probed})

    def _probes(self, step: int, epoch: float) -> bool:
        """Whether to train a classifier after ``step`` steps, which are ``epoch`` epochs."""
        if step in (0, self._job.total_steps):
            return True
        if every := self._job.settings.probe_every_steps:
            return step % every == 0
        return epoch % self._job.settings.probe_every_epochs == 0

    def _accuracy(self) -> float:
        data, encoder = self._data, self._job.method.encoder
        machine = choose_machine([data.train, data.test], accelerator=self._job.settings.accelerator)
        training = encoder.training
        try:
            return linear(Task(encoder, data, self._job.settings.seed, machine), LinearSettings()).value
        finally:
            encoder.train(training)

    def diverged(self, step: int, epoch: float, what: str) -> None:
        """Called if the run ends here."""
        self._observer.diverged(step, epoch, what)
