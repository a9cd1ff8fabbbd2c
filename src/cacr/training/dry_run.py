"""What a run would be: every resolved setting, its size, its memory and its steps, without data or training."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric

from cacr.config import PretrainSettings, ResolvedSettings
from cacr.data.order import count_batches
from cacr.frameworks import Framework, Queue
from cacr.reading.memory import gigabytes
from cacr.runs.folder import RunFolder
from cacr.training.build import build_method
from cacr.training.check import check_settings
from cacr.training.cost import count_memory, rate_text, weights_bytes
from cacr.training.data import describe_images, prepare_data
from cacr.training.launch import Where, launch
from cacr.training.recipes import RECIPES
from cacr.training.resolve import Described, run_length
from cacr.training.settings import completed
from cacr.training.timed import Place, Timed, fit_time, is_timed, preferred


def dry_run(values: Mapping[str, Any], *, like: Path | None = None, began: float | None = None) -> list[str]:
    """Lines that describe a run.

    The data is looked at where it is given; otherwise what the recipe knows of it is enough. The model is built
    without memory, so that it may be larger than this machine. A machine is measured only for a time that is given:
    of the default on a CPU the settings are those that are tried first.

    Args:
        values: settings by name, ``recipe`` among them.
        like: a run whose settings are taken; those of ``values`` win.
        began: when what ``time`` counts began, on the clock of ``time.monotonic``; now by default.
    """
    recipe = RECIPES.get(str(values.get("recipe")))
    merged = completed(values, like)
    known = recipe is not None and values.get("data") is None
    if known and recipe is not None:
        merged.setdefault("data", recipe.data.name)
    settings = check_settings(merged)
    where = Where.of(settings)
    data = recipe.data if known and recipe is not None else describe_images(settings)
    place = Place(where.processes, torch.device(where.kind))
    notes: list[str] = []
    if is_timed(settings, on_cpu=place.on_cpu):
        if settings.time is not None and not known:
            began = time.monotonic() if began is None else began
            with torch.random.fork_rng():
                settings, reasons = launch(_measured, where, settings, began)
            notes += reasons
        else:
            settings = preferred(settings, data, place)
            notes.append(
                f"how many steps fit into {settings.time or 'an hour'} is measured when the run starts"
            )
    resolved = place.resolved(settings, data, {})
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        method, _ = build_method(resolved)
        lines = _describe(resolved, data, method, where.processes)
    shown = [f"  {name}: {value}" for name, value in resolved.model_dump(mode="json").items()]
    return [*lines, *(f"note: {note}" for note in notes), "settings:", *shown]


def _measured(fabric: Fabric, settings: PretrainSettings, began: float) -> Timed:
    """What a run of a given time would be; in each process."""
    return fit_time(fabric, settings, RunFolder(Path()), prepare_data(settings), began=began, observed=True)


def _describe(settings: ResolvedSettings, data: Described, method: Framework, world: int) -> list[str]:
    """The facts of a run that follow from its settings."""
    batch, views = settings.batch_size, settings.views
    batches = count_batches(data.images, batch, world, keep_all=False)
    length = run_length(batches, settings.epochs, settings)
    trained = [p for p in method.parameters() if p.requires_grad]
    held = [p for p in method.parameters() if not p.requires_grad]
    negatives = method.negatives(batch, views)
    share = -(-batch // world)
    activations, loss = count_memory(settings, method, share)
    rows = {
        "data": f"{data.name}: {data.images:,} images, about {data.side} px",
        "parameters": f"{_count(trained):,} trained, {_count(held):,} held "
        f"({_count(list(method.encoder.parameters())):,} of them the encoder that is kept)"
        if held
        else f"{_count(trained):,} ({_count(list(method.encoder.parameters())):,} of them the encoder)",
        "negatives": f"{negatives.number:,} for each query: {negatives.origin}",
        "processes": f"{world}, {share:,} of {batch:,} images in each",
        "steps": f"{length.per_epoch:,} an epoch, {length.total:,} in all; "
        f"{length.total * settings.accumulate * batch * views:,} views",
        "lr": rate_text(settings),
        "activations": f"{gigabytes(activations, 3)} kept for the backward pass in each process (float32, attention "
        "written out)",
        "loss": f"{gigabytes(loss, 3)} kept for the backward pass of the global batch's loss",
        "weights": f"{gigabytes(weights_bytes(method.parameters(), settings), 3)} with gradients and optimiser",
    }
    if isinstance(method, Queue):
        rows["queue"] = f"{gigabytes(method.queue.nbytes, 3)} for {len(method.queue):,} keys"
    return [f"{name:<12}{text}" for name, text in rows.items()]


def _count(parameters: list[Any]) -> int:
    return sum(p.numel() for p in parameters)
