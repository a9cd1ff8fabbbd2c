"""Pretraining, from settings to a run folder; read it from top to bottom.

:func:`pretrain` reads the settings and starts the processes. In each process, :func:`_pretrain` opens the data,
resolves the settings, builds the model, loads a checkpoint if there is one, and trains. Nothing is written before all
of it is known to fit.
"""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import torch

from cacr.config import PretrainSettings, ResolvedSettings
from cacr.runs.folder import RunFolder
from cacr.terminal import CleanConsole
from cacr.training.announce import announce, announce_stop
from cacr.training.building.build import build_training
from cacr.training.building.captions import as_given, notes_on_captions, with_own_tower
from cacr.training.building.checkpoints import load_latest
from cacr.training.building.data import prepare_data
from cacr.training.building.job import Position
from cacr.training.loop.loop import Ending, train
from cacr.training.loop.metrics import MetricsLog
from cacr.training.loop.observer import Observe
from cacr.training.plan import make_plan
from cacr.training.processes.fabric import Fabric
from cacr.training.processes.launch import Where, launch
from cacr.training.settings.of_run import settings_of_new, settings_of_resumed

Status = Ending | Literal["already finished"]


@dataclass(frozen=True)
class Outcome:
    """How a pretraining ended.

    Attributes:
        run: the run folder.
        status: ``interrupted`` by a signal, or ``stopped`` by the diagnostics (``on_collapse``): both have a
            checkpoint and can be resumed.
        step: total number of optimiser steps.
    """

    run: Path
    status: Status
    step: int


def pretrain(
    values: Mapping[str, Any],
    out: Path,
    *,
    resume: bool = False,
    observe: Observe | None = None,
    like: Path | None = None,
    began: float | None = None,
) -> Outcome:
    """Pretrain an encoder.

    Args:
        values: settings by name, as in :class:`cacr.config.PretrainSettings`, including options of the objective and
            of the view preset; other settings have their defaults.
        out: the run folder, new or empty; with ``resume``, the folder of the run to continue.
        resume: continue the run in ``out``, or start it if there is none yet.
        observe: creates the observer that measures the model; a function of a module, because other processes call it
            too.
        like: a run whose settings the new run copies; ``values`` override them.
        began: start of the time that ``time`` counts, on the clock of ``time.monotonic``; default: now.
    """
    began = time.monotonic() if began is None else began
    run = RunFolder(out)
    resuming = resume and run.holds_run
    settings = settings_of_resumed(run, values) if resuming else settings_of_new(run, values, like)
    with torch.random.fork_rng():  # keep the caller's random state
        status, step = launch(_pretrain, Where.of(settings), settings, run, resuming, observe, began)
    return Outcome(out, status, step)


def _pretrain(
    fabric: Fabric,
    asked: PretrainSettings,
    run: RunFolder,
    resuming: bool,
    observe: Observe | None,
    began: float,
) -> tuple[Status, int]:
    """The work of each process."""
    console = CleanConsole(quiet=not fabric.is_global_zero)
    given, asked = asked, with_own_tower(asked, run) if resuming else asked
    data = prepare_data(asked, run if resuming else None)
    whole = observe is not None
    settings, need, reasons = make_plan(
        fabric, asked, run, data, resuming=resuming, began=began, observed=whole, tell=console.print
    )
    state = load_latest(run.checkpoints, warn=console.print) if resuming else None
    job = build_training(fabric, settings, run, data.training, new=state is None)
    position = Position() if state is None else job.restore(state)
    measured = {} if state is None else state["diagnostics"]
    del state  # otherwise a second copy of all weights stays in memory during the training
    if position.step >= job.total_steps:
        limit = f" (max_steps is {settings.max_steps})" if settings.max_steps else ""
        console.print(f"{run.path} is already finished, at step {position.step}{limit}: nothing to do")
        return "already finished", position.step
    with ExitStack() as stack:
        log = None
        if fabric.is_global_zero:
            run.create()
            stack.enter_context(run.locked())
            data.record(run)
            log = _open_log(run, as_given(settings, given), position)
        observed = observe is not None and settings.measure_every_epochs != 0
        notes = [*data.notes(run, observed=observed), *reasons, *job.notes]
        notes += notes_on_captions(job.method, data.training)
        announce(console, job, data.training, notes, position, need)
        stack.callback(job.loader.close)
        observer = observe(job, data.measured, console) if observe and observed else None
        status = train(job, position, console, log, observer, measured)
        if fabric.is_global_zero and (later := job.loader.unreadable.values()):
            data.record(run, later)
            console.print(f"{len(later)} more images are unreadable; they are listed in {run.unreadable}")
    if status != "finished":
        announce_stop(console, run, position, by_diagnostics=status == "stopped")
    return status, position.step


def _open_log(run: RunFolder, settings: ResolvedSettings, position: Position) -> MetricsLog:
    """Store the settings; remove log lines after the checkpoint, because those steps will be logged again."""
    run.drop_metrics_after(position.step)
    packages = ("cacr", "torch", "torchvision", "timm", "lightning-fabric")
    run.write_settings(settings, {name: version(name) for name in packages})
    return MetricsLog(run.metrics, settings)
