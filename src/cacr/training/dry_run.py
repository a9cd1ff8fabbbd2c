"""``--dry-run``: print every resolved setting, the size, memory and steps of a run, without training."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from cacr.config import PretrainSettings, ResolvedSettings
from cacr.frameworks import Framework, Queue
from cacr.reading.memory import gigabytes
from cacr.runs.folder import RunFolder
from cacr.training.announce import rate_text, views_text
from cacr.training.building.data import describe_images, prepare_data
from cacr.training.building.networks import build_method, initial_weights_notes
from cacr.training.cost.fit import lacking
from cacr.training.cost.place import Place
from cacr.training.cost.timed import Timed, fit_time, is_timed, preferred
from cacr.training.processes.fabric import Fabric
from cacr.training.processes.launch import Where, launch, require_device
from cacr.training.settings.described import Described
from cacr.training.settings.of_run import checked, completed
from cacr.training.settings.recipes import RECIPES
from cacr.training.settings.resolve import keyed_views, planned_length


def dry_run(values: Mapping[str, Any], *, like: Path | None = None, began: float | None = None) -> list[str]:
    """Lines that describe a run.

    The data is opened if it is given; otherwise the description in the recipe is used. The model is built without
    memory, so it may be too large for this machine. Speed is measured only if ``time`` is given; for the default time
    on a CPU, the settings are those that a run tries first.

    Args:
        values: settings by name, including ``recipe``.
        like: a run whose settings are copied; ``values`` override them.
        began: start of the time that ``time`` counts, on the clock of ``time.monotonic``; default: now.
    """
    recipe = RECIPES.get(str(values.get("recipe")))
    merged = completed(values, like)
    known = recipe is not None and values.get("data") is None
    if known and recipe is not None:
        merged.setdefault("data", recipe.data.name)
    settings = checked(merged)
    data = (
        describe_images(settings)
        if recipe is None or not known
        else recipe.data.imbalanced(settings.imbalance)
    )
    require_device(Where.of(settings))
    place = Place.of(settings)
    notes: list[str] = []
    if is_timed(settings, on_cpu=place.on_cpu):
        if settings.time is not None and not known:
            began = time.monotonic() if began is None else began
            with torch.random.fork_rng():
                settings, reasons, _ = launch(_measured, Where.of(settings), settings, began)
            notes += reasons
        else:
            settings = preferred(settings, data, place)
            notes.append(
                f"the number of steps in {settings.time or 'an hour'} is measured when the run starts"
            )
    resolved = place.resolved(settings, data)
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        method, _ = build_method(resolved)
    notes += initial_weights_notes(resolved)
    need = place.need(resolved, data)
    lines = _describe(resolved, data, method, place.world_size, need.in_words(len(need.parts)))
    if problem := lacking(need, place.device):
        notes.append(problem)
    shown = [f"  {name}: {value}" for name, value in resolved.model_dump(mode="json").items()]
    return [*lines, *(f"note: {note}" for note in notes), "settings:", *shown]


def _measured(fabric: Fabric, settings: PretrainSettings, began: float) -> Timed:
    """Plan a run with a given time, in each process."""
    return fit_time(fabric, settings, RunFolder(Path()), prepare_data(settings), began=began, observed=True)


def needed_memory(asked: PretrainSettings) -> str:
    """Describe the memory of a run, and the free memory.

    Raises:
        UserError: its data cannot be opened.
    """
    data, place = describe_images(asked), Place.of(asked)
    need = place.need(place.resolved(preferred(asked, data, place), data), data)
    return need.in_words() + (", which is not enough" if lacking(need, place.device) else "")


def _describe(
    settings: ResolvedSettings, data: Described, method: Framework, world: int, memory: str
) -> list[str]:
    """The facts of a run that follow from its settings."""
    batch, views = settings.batch_size, settings.views
    length = planned_length(settings, data.images, world)
    trained = [p for p in method.parameters() if p.requires_grad]
    held = [p for p in method.parameters() if not p.requires_grad]
    share = -(-batch // world)
    rows = {
        "data": f"{data.name}: {data.images:,} images, about {data.side} px",
        "views": views_text(settings),
        "parameters": f"{_count(trained):,} trained, {_count(held):,} not trained; "
        f"the encoder that is saved has {_count(list(method.encoder.parameters())):,}"
        if held
        else f"{_count(trained):,} ({_count(list(method.encoder.parameters())):,} of them the encoder)",
        "negatives": method.negatives_text(batch, keyed_views(settings), accumulate=settings.accumulate),
        "processes": f"{world}, {share:,} of {batch:,} images in each",
        "steps": f"{length.per_epoch:,} per epoch, {length.total:,} in total; "
        f"{length.total * settings.accumulate * batch * views:,} views",
        "lr": rate_text(settings),
        "memory": memory,
    }
    if isinstance(method, Queue):
        rows["queue"] = f"{gigabytes(method.queue.nbytes, 3)} for {len(method.queue):,} keys"
    return [f"{name:<12}{text}" for name, text in rows.items()]


def _count(parameters: list[Any]) -> int:
    return sum(p.numel() for p in parameters)
