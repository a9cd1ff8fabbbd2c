"""Runs with a given time: measure this machine once, before the run starts, and choose settings that fit."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from cacr.config import PretrainSettings, ResolvedSettings
from cacr.durations import HOUR, duration, seconds_of, short_time
from cacr.errors import UserError
from cacr.runs.folder import RunFolder
from cacr.training.building.build import build_training
from cacr.training.building.data import TrainingData
from cacr.training.cost.command_time import Command, encoding_seconds, price, reading_seconds, slowdown
from cacr.training.cost.fit import advice, lacking
from cacr.training.cost.need import Need
from cacr.training.cost.place import Place
from cacr.training.cost.step_time import Clock, measure_step
from cacr.training.processes.fabric import Fabric
from cacr.training.settings.described import Described
from cacr.training.settings.resolve import planned_length, run_length
from cacr.training.settings.time_rules import Candidate, Choice, Price, choose
from cacr.views import PRESETS

DEFAULT_SECONDS = HOUR
"""Default time of a run on a CPU if no length is given."""

FEWEST_STEPS = 10
"""Smallest number of steps; a shorter time is refused."""

MOST_EPOCHS = 1_000_000

MEASURED_SHARE, LEAST_MEASURED, MOST_MEASURED = 0.02, 1.0, 12.0
"""Share of the time for measuring each candidate, and its limits in seconds. If a step takes a second, warm-up and
measurement need more than six seconds, because workers decode several batches ahead at first."""

_CHOSEN = ("encoder", "width", "image_size", "views", "batch_size")


class Timed(NamedTuple):
    """Settings with a known length, the reasons for it, and the memory that they need, if it was estimated."""

    settings: PretrainSettings
    reasons: tuple[str, ...] = ()
    need: Need | None = None


def is_timed(asked: PretrainSettings, *, on_cpu: bool) -> bool:
    """Whether the length of a run follows from a time: a given one, or the default on a CPU.

    Recipes have a number of epochs instead.
    """
    if asked.epochs != "auto" or asked.max_steps is not None:
        return False
    return asked.time is not None or (on_cpu and asked.recipe is None)


def preferred(asked: PretrainSettings, data: Described, place: Place) -> PretrainSettings:
    """The settings that would be tried first, without measuring: they are chosen on a fast machine."""
    if not is_timed(asked, on_cpu=place.on_cpu):
        return asked
    found = _choose(asked, data, place, lambda candidate: Price(0.0, 0.0), lambda candidate: True)
    return asked.model_copy(update=found.settings if found else {})


def fit_time(
    fabric: Fabric,
    asked: PretrainSettings,
    run: RunFolder,
    data: TrainingData,
    *,
    began: float,
    observed: bool,
    tell: Callable[[str], None] = lambda line: None,
    clock: Clock = time.monotonic,
) -> Timed:
    """Choose the settings and the number of steps of a new run; every process must call this.

    The first process measures, decides and informs the others.

    Args:
        fabric: the process.
        asked: the settings that were given.
        run: its folder, still empty.
        data: its images.
        began: start of the command, by ``clock``.
        observed: whether there are diagnostics, a reader and a report.
        tell: is called with a line of text before the measurement, which takes some seconds.
        clock: returns seconds.

    Raises:
        UserError: too few steps fit into the time, or nothing fits into memory.
    """
    place = Place.of(asked, fabric)
    if not is_timed(asked, on_cpu=place.on_cpu):
        return Timed(asked)
    budget = seconds_of(asked.time) if asked.time else DEFAULT_SECONDS
    measured = min(MOST_MEASURED, max(LEAST_MEASURED, MEASURED_SHARE * budget))
    source = data.training
    tell("measuring how fast this machine is ...")
    room = _Room(fabric, asked, data.described)

    def cost(candidate: Candidate) -> Price:
        settings = place.resolved(asked, data.described, **candidate, epochs=MOST_EPOCHS)
        reading = reading_seconds(settings, source) if fabric.is_global_zero else 0.0
        # Refuse wrong weights before anything is measured; the filters of the first layer do not change the time of a
        # step.
        job = build_training(fabric, settings, run, source, new=asked.init is not None)
        state = room.fitting.parts["weights"]
        step = measure_step(job, measured, clock)
        per_epoch = run_length(job.loader.batches_per_epoch, MOST_EPOCHS, settings).per_epoch
        looked_at = 0 if not observed else len(data.measured)
        slowed = slowdown() if fabric.is_global_zero else 1.0
        # larger images than in training: their time does not follow from that of a step
        encoding = encoding_seconds(job, clock) if settings.feature_view and fabric.is_global_zero else None
        command = Command(
            passed=clock() - began,
            opening=data.opening,
            reading=reading,
            images=len(source),
            measured=looked_at,
            per_epoch=per_epoch,
            state=state,
            slowed=slowed,
            observed=observed,
            encoding=encoding,
        )
        shared: Price = fabric.broadcast(price(settings, command, step))
        return shared

    choice = _choose(asked, data.described, place, cost, room.fits)
    if choice is None:
        raise UserError(room.refusal())
    settings = place.resolved(asked, data.described, **choice.settings)
    per_epoch = planned_length(settings, len(source), place.world_size).per_epoch
    timed = settled(asked, choice, budget, per_epoch, settings)
    return timed._replace(need=room.fitting)


class _Room:
    """Estimates the memory of candidates, in every process; the first process decides whether enough is free.

    Attributes:
        fitting: memory of the last candidate that fits; it is measured next, and may be chosen.
    """

    fitting: Need

    def __init__(self, fabric: Fabric, asked: PretrainSettings, data: Described) -> None:
        self._fabric, self._asked, self._data = fabric, asked, data
        self._place = Place.of(asked, fabric)

    def fits(self, candidate: Candidate) -> bool:
        """Whether there is enough memory for a candidate."""
        self._tried = self._place.resolved(self._asked, self._data, **candidate)
        need = self._place.need(self._tried, self._data)
        self._problem: str | None = self._fabric.broadcast(lacking(need, self._place.device))
        if self._problem is None:
            self.fitting = need
        return self._problem is None

    def refusal(self) -> str:
        """Why the last candidate does not fit, and what would fit."""
        return f"{self._problem}; {advice(self._tried, self._data, self._place)}"


def settled(
    asked: PretrainSettings, choice: Choice, budget: int, per_epoch: int, resolved: ResolvedSettings
) -> Timed:
    """The chosen settings, with the number of steps that fit, and the reasons.

    Args:
        asked: the settings that were given.
        choice: what was chosen.
        budget: seconds of the whole command.
        per_epoch: steps per epoch.
        resolved: the chosen settings without ``auto``, with the epochs of the paper.
    """
    steps = choice.price.steps(budget)
    named = asked.time or f"{short_time(budget)} (the default on a CPU)"
    costs = f"a step takes {_figures(choice.price.step)} s, and everything else takes {duration(choice.price.rest)}"
    if steps < FEWEST_STEPS:
        least = choice.price.rest + FEWEST_STEPS * choice.price.step
        enough = short_time(60 * (int(1.1 * least / 60) + 1))
        raise UserError(
            f"time {named} is too short for {FEWEST_STEPS} steps on this machine: {costs}; use --time {enough} or more"
        )
    chosen: dict[str, Any] = dict(choice.settings)
    if asked.time is None and steps >= resolved.epochs * per_epoch:
        length = (
            f"{resolved.epochs} epochs, as in the paper: they take less than an hour, the default on a CPU"
        )
    else:
        epochs = min(MOST_EPOCHS, -(-steps // per_epoch))
        steps = min(steps, epochs * per_epoch)
        chosen |= {"epochs": epochs, "max_steps": steps, "time": short_time(budget)}
        length = f"time {named}: {steps:,} steps fit, {costs}"
    return Timed(asked.model_copy(update=chosen), ("; ".join((length, *choice.reasons)),))


def _choose(
    asked: PretrainSettings,
    data: Described,
    place: Place,
    cost: Callable[[Candidate], Price],
    fits: Callable[[Candidate], bool],
) -> Choice | None:
    """Apply the rules to the settings that are free to choose."""
    default = place.resolved(asked, data)
    free = {name for name in _CHOSEN if getattr(asked, name) == "auto"}
    if asked.init or (asked.preset in PRESETS and PRESETS[asked.preset].local is not None):
        # Initial weights fit only one encoder, and not every encoder takes views of several sizes.
        free -= {"encoder", "width", "image_size"}
    budget = seconds_of(asked.time) if asked.time else DEFAULT_SECONDS
    return choose(data, default, free, budget, cost, fits, on_cpu=place.on_cpu)


def _figures(seconds: float) -> str:
    """Two digits for a short time, whole seconds for a long one."""
    return f"{seconds:.2g}" if seconds < 10 else f"{seconds:.0f}"
