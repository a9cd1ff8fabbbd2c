"""Measure how fast this machine loads images, makes views and trains, and which of these is the bottleneck."""

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from cacr.config import PretrainSettings
from cacr.data import ArraySource, Loader, Source
from cacr.randomness import generator
from cacr.training.building.build import make_views_of
from cacr.training.building.networks import build_method
from cacr.training.settings.described import describe
from cacr.training.settings.resolve import resolve

BATCH, VIEWS = 64, 2
MEASURE_SECONDS = 2.0
_SIMPLER_VIEWS = "; try fewer or simpler augmentations (--set blur=0), or a smaller image_size"
_FASTER_FILES = "; try more workers (--set workers=N), or store smaller images"


class _Stage(NamedTuple):
    """A part of training: its name, batches per second, and advice if it is the bottleneck."""

    name: str
    rate: float
    advice: str = ""


def noise() -> Source:
    """Images of random pixels, used if no data is given."""
    pixels = torch.randint(256, (512, 3, 32, 32), dtype=torch.uint8, generator=generator("noise"))
    return ArraySource("noise of 32 px", pixels)


def measure_speed(source: Source) -> Iterator[str]:
    """Lines with the speed of loading, making views and training, and which of these is the bottleneck."""
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
    yield f"speed on {source.name}, {settings.image_size} px, {VIEWS} views per image, in images/s:"
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
    """Calls per second."""
    work()
    count, started = 0, time.perf_counter()
    while (seconds := time.perf_counter() - started) < MEASURE_SECONDS:
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        count += 1
    return count / seconds
