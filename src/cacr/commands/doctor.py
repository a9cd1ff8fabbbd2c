"""What this machine can do, and what is wrong with a run or with data."""

import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

import cacr
from cacr.commands.doctor_data import after_data, describe_data
from cacr.commands.doctor_encoder import examine_encoder, names_encoder
from cacr.commands.doctor_run import examine_run
from cacr.config import PretrainSettings
from cacr.data import ArraySource, Loader, Source, inspect_source, open_source, prepare
from cacr.errors import UserError
from cacr.randomness import generator
from cacr.reading.memory import free_memory, gigabytes
from cacr.reporting.next_step import next_lines
from cacr.runs.folder import RunFolder
from cacr.runs.run import Run
from cacr.shell import shell_words
from cacr.training.build import build_method, make_views_of
from cacr.training.dry_run import needed_memory
from cacr.training.precision import cpu_flags, has_fast_bf16
from cacr.training.resolve import describe, resolve

BATCH, VIEWS = 64, 2
MEASURE_SECONDS = 2.0
_SIMPLER_VIEWS = "; try fewer or simpler augmentations (--set blur=0), or a smaller image_size"
_FASTER_FILES = "; try more --set workers=N, or store the images smaller"


class _Stage(NamedTuple):
    """A part of training: what it is called, batches a second, and what to try where it holds up the rest."""

    name: str
    rate: float
    advice: str = ""


def examine(target: str | None, *, root: Path, images: str | None = None) -> Iterator[str]:
    """Lines of a diagnosis: of this machine, and of a run folder, an encoder or data where one is named."""
    yield from describe_machine()
    if target is None:
        yield from measure_speed(_noise())
        yield f"what next? See the whole way on handwritten digits: {shell_words('cacr', 'demo')}"
        yield f"or look at your own images: {shell_words('cacr', 'doctor', 'FOLDER')}"
    elif RunFolder(Path(target)).holds_run:
        run = Run.open(Path(target))
        yield from examine_run(run)
        with suppress(UserError):  # what is damaged is told above
            yield from next_lines(run)
    elif names_encoder(target):
        yield from examine_encoder(target)
    else:
        yield from _examine_data(target, root, images)


def _examine_data(target: str, root: Path, images: str | None) -> Iterator[str]:
    source = open_source(target, root=root, images=images)
    found = inspect_source(source)
    yield from describe_data(found)
    if found.examined - len(found.unreadable) < 2:
        yield "too few readable images to train on: at least two are needed"
        return
    with suppress(UserError):  # a part of a set that nobody trains on
        asked = PretrainSettings(data=target, data_root=root)
        yield f"memory that a run with default settings needs: {needed_memory(asked)}"
    yield from measure_speed(prepare(source, max_unreadable=1.0).source)
    where = ("--data-root", root) if root != PretrainSettings.model_fields["data_root"].default else ()
    chosen = ("--images", images) if images else ()
    yield from after_data(target, found, (*where, *chosen), rgb=source.channels == 3)


def describe_machine() -> Iterator[str]:
    """Versions, devices and number formats."""
    import timm
    import torchvision

    yield f"cacr {cacr.__version__}, Python {platform.python_version()}, {platform.platform()}"
    yield f"torch {torch.__version__}, torchvision {torchvision.__version__}, timm {timm.__version__}"
    cpu = torch.device("cpu")
    kind = torch.backends.cpu.get_cpu_capability()
    amx = ", AMX" if "amx_bf16" in cpu_flags() else ""
    yield f"CPU: {os.cpu_count()} cores, {torch.get_num_threads()} threads, {kind}{amx}; bf16 {_fast(cpu)}"
    yield f"memory: {gigabytes(free_memory())} free"
    for number in range(torch.cuda.device_count()):
        device = torch.device("cuda", number)
        memory = torch.cuda.get_device_properties(device).total_memory / 1e9
        yield f"GPU {number}: {torch.cuda.get_device_name(device)}, {memory:.0f} GB; bf16 {_fast(device)}"
    if not torch.cuda.is_available():
        yield "GPU: none; small images and a narrow encoder (--width 0.25) train well on a CPU"


def _fast(device: torch.device) -> str:
    return "in hardware" if has_fast_bf16(device) else "not in hardware (float32 is used)"


def _noise() -> Source:
    pixels = torch.randint(256, (512, 3, 32, 32), dtype=torch.uint8, generator=generator("noise"))
    return ArraySource("noise of 32 px", pixels)


def measure_speed(source: Source) -> Iterator[str]:
    """How fast images are loaded, views made and an encoder trained, and which of these holds up the rest."""
    batch = min(BATCH, len(source))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    asked = PretrainSettings(data=source.name, views=VIEWS, batch_size=batch, epochs=1)
    settings = resolve(asked, describe(source), world_size=1, device=device)
    if settings.encoder == "small_alexnet":
        settings = settings.model_copy(update={"width": 0.25})
    views = make_views_of(settings, device)
    raw = source.image_size is not None
    loader = Loader(
        source,
        batch_size=batch,
        seed=0,
        workers=settings.workers,
        crop=views.crop,
        max_unreadable=1.0,
    )
    batches = _endless(loader)
    images = next(batches)

    def make() -> list[Tensor]:
        return views(images, generator("noise"))

    method = build_method(settings).method.to(device).to(memory_format=torch.channels_last)
    made = make()

    def step() -> None:
        torch.autograd.backward(method(made)["loss"])
        method.zero_grad()

    width = "" if settings.width == 1 else " (width 0.25)"
    loading, making = "loading", "views on the device"
    if not raw:
        loading = f"decoding and cropping ({settings.workers} workers)"
        making = "colours and views on the device"
    stages = [
        _Stage(loading, _rate(lambda: next(batches)), _SIMPLER_VIEWS if raw else _FASTER_FILES),
        _Stage(making, _rate(make), _SIMPLER_VIEWS),
        _Stage(f"training {settings.encoder}{width}", _rate(step)),
    ]
    yield f"speed on {source.name}, {settings.image_size} px, {VIEWS} views an image, in images/s:"
    for stage in stages:
        yield f"  {stage.name}: {stage.rate * batch:,.0f}"
    slowest = min(stages, key=lambda stage: stage.rate)
    yield f"bottleneck: {slowest.name}{slowest.advice}"


def _endless(loader: Loader) -> Iterator[Tensor | list[Tensor]]:
    epoch = 0
    while True:
        for batch in loader.epoch(epoch):
            yield batch.images
        epoch += 1


def _rate(work: Callable[[], object]) -> float:
    """Calls a second."""
    work()
    count, started = 0, time.perf_counter()
    while (seconds := time.perf_counter() - started) < MEASURE_SECONDS:
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        count += 1
    return count / seconds
