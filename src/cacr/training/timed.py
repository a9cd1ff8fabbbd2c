"""A run of a given time: this machine is measured once, before it begins, and what fits is settled for good."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from lightning_fabric import Fabric

from cacr.config import PretrainSettings, ResolvedSettings
from cacr.data.order import count_batches
from cacr.durations import HOUR, seconds_of, short_time
from cacr.errors import UserError
from cacr.reading.memory import free_memory
from cacr.runs.folder import RunFolder
from cacr.training.build import build_method, build_training
from cacr.training.command_time import Command, price, reading_seconds, slowdown
from cacr.training.cost import count_memory, weights_bytes
from cacr.training.data import TrainingData
from cacr.training.progress import duration
from cacr.training.resolve import Described, resolve, run_length
from cacr.training.step_time import Clock, measure_step
from cacr.training.time_rules import Candidate, Choice, Price, choose
from cacr.views import PRESETS

DEFAULT_SECONDS = HOUR
"""Of a run on a CPU whose length nobody has given."""

FEWEST_STEPS = 10
"""Fewer are no run: the time is refused."""

MOST_EPOCHS = 1_000_000

MEASURED_SHARE, LEAST_MEASURED, MOST_MEASURED = 0.02, 1.0, 6.0
"""Of its time that steps are measured for each candidate, and the limits of that in seconds."""

MEMORY_FACTOR, MEMORY_BASE = 2.4, 5e8
"""A process was seen to take so many times what autograd and the weights are counted to keep; bytes of an idle one."""

_CHOSEN = ("encoder", "width", "image_size", "views", "batch_size")


class Timed(NamedTuple):
    """Settings whose length is known, and why it is what it is."""

    settings: PretrainSettings
    reasons: tuple[str, ...] = ()


def is_timed(asked: PretrainSettings, *, on_cpu: bool) -> bool:
    """Whether the length of a run follows from a time: one that was given, or the default on a CPU.

    Recipes have their epochs.
    """
    if asked.epochs != "auto" or asked.max_steps is not None:
        return False
    return asked.time is not None or (on_cpu and asked.recipe is None)


@dataclass(frozen=True)
class Place:
    """Where a run would be: how many processes there are, and what they compute on."""

    world_size: int
    device: torch.device

    @property
    def on_cpu(self) -> bool:
        """Whether it computes on a CPU."""
        return self.device.type == "cpu"

    def resolved(self, asked: PretrainSettings, data: Described, candidate: Candidate) -> ResolvedSettings:
        """The settings of a candidate."""
        chosen = asked.model_copy(update=dict(candidate))
        return resolve(chosen, data, world_size=self.world_size, device=self.device)

    def fits(self, settings: ResolvedSettings) -> bool:
        """Whether the memory that is free is enough; counted on a CPU, and by a process that is alone."""
        return not self.on_cpu or self.world_size > 1 or _bytes(settings) <= free_memory()


def preferred(asked: PretrainSettings, data: Described, place: Place) -> PretrainSettings:
    """What would be tried first: chosen if the machine is fast enough; nothing is measured."""
    if not is_timed(asked, on_cpu=place.on_cpu):
        return asked
    found = _choose(asked, data, place, lambda candidate: Price(0.0, 0.0), lambda candidate: True)
    return asked.model_copy(update=found.settings)


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
    """Settle what a new run is made of and how many steps it has; every process must call this.

    The first process measures and decides, and tells the others.

    Args:
        fabric: the process.
        asked: what was asked for.
        run: its folder, in which nothing is written yet.
        data: its images.
        began: when the command began, by ``clock``.
        observed: whether there are diagnostics, a reader and a page.
        tell: gets a line when the machine is measured, which takes some seconds.
        clock: seconds since some moment.

    Raises:
        UserError: too few steps fit into the time, or nothing into memory.
    """
    place = Place(fabric.world_size, fabric.device)
    if not is_timed(asked, on_cpu=place.on_cpu):
        return Timed(asked)
    budget = seconds_of(asked.time) if asked.time else DEFAULT_SECONDS
    measured = min(MOST_MEASURED, max(LEAST_MEASURED, MEASURED_SHARE * budget))
    source = data.training
    tell("measuring how fast this machine is ...")

    def cost(candidate: Candidate) -> Price:
        endless = {**candidate, "epochs": MOST_EPOCHS}
        settings = place.resolved(asked, data.described, endless)
        reading = reading_seconds(settings, source) if fabric.is_global_zero else 0.0
        # Wrong weights are refused before anything is measured; filters of the first layer cost no time in a step.
        job = build_training(fabric, settings, run, source, new=asked.init is not None)
        state = weights_bytes((*job.method.parameters(), *job.method.buffers()), settings)
        step = measure_step(job, measured, clock)
        per_epoch = run_length(job.loader.batches_per_epoch, MOST_EPOCHS, settings).per_epoch
        looked_at = 0 if not observed else len(data.measured)
        slowed = slowdown() if fabric.is_global_zero else 1.0
        command = Command(
            clock() - began, data.opening, reading, len(source), looked_at, per_epoch, state, slowed, observed
        )
        told: Price = fabric.broadcast(price(settings, command, step))
        return told

    def fits(candidate: Candidate) -> bool:
        settings = place.resolved(asked, data.described, candidate)
        return bool(fabric.broadcast(place.fits(settings)))

    choice = _choose(asked, data.described, place, cost, fits)
    settings = place.resolved(asked, data.described, choice.settings)
    batches = max(1, count_batches(len(source), settings.batch_size, place.world_size, keep_all=False))
    return settled(asked, choice, budget, run_length(batches, settings.epochs, settings).per_epoch, settings)


def settled(
    asked: PretrainSettings, choice: Choice, budget: int, per_epoch: int, resolved: ResolvedSettings
) -> Timed:
    """The settings of a choice, with as many steps as fit, and why.

    Args:
        asked: what was asked for.
        choice: what was chosen.
        budget: seconds of the whole command.
        per_epoch: steps of an epoch.
        resolved: the choice without ``auto``, and with the epochs of the paper.
    """
    steps = choice.price.steps(budget)
    named = asked.time or f"{short_time(budget)} (the default on a CPU)"
    costs = f"a step takes {_figures(choice.price.step)} s and everything else {duration(choice.price.rest)}"
    if steps < FEWEST_STEPS:
        least = choice.price.rest + FEWEST_STEPS * choice.price.step
        enough = short_time(60 * (int(1.1 * least / 60) + 1))
        raise UserError(
            f"time {named} is too short for {FEWEST_STEPS} steps on this machine: {costs}; give --time {enough} or more"
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
) -> Choice:
    """The rules, with the settings that they are free to choose."""
    usual = place.resolved(asked, data, {})
    free = {name for name in _CHOSEN if getattr(asked, name) == "auto"}
    if asked.init or (asked.preset in PRESETS and PRESETS[asked.preset].local is not None):
        # Weights from elsewhere fit one encoder, and views of several sizes not every one.
        free -= {"encoder", "width", "image_size"}
    budget = seconds_of(asked.time) if asked.time else DEFAULT_SECONDS
    return choose(data, usual, free, budget, cost, fits, on_cpu=place.on_cpu)


def _bytes(settings: ResolvedSettings) -> float:
    """Memory of a lone process, counted without computing anything."""
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        method, _ = build_method(settings)
        kept = sum(count_memory(settings, method, settings.batch_size))
    weights = weights_bytes((*method.parameters(), *method.buffers()), settings)
    return MEMORY_FACTOR * (kept + weights) + MEMORY_BASE


def _figures(seconds: float) -> str:
    """Two figures of a short time, whole seconds of a long one."""
    return f"{seconds:.2g}" if seconds < 10 else f"{seconds:.0f}"
