"""Estimate the time of ``cacr pretrain`` apart from its steps: before, between and after them.

Some times are not measured when a run starts. They were measured on an AMD EPYC server, as time of one core, and are
scaled up if other programs slow this one down. ``benchmarks/time_kept.py`` checks them on another machine.
"""

import math
import time
from typing import NamedTuple

import numpy as np
import torch

from cacr.config import ResolvedSettings
from cacr.cores import available_cores
from cacr.data import Loader, Source, StreamSource
from cacr.training.building.build import feature_view_of, preset_of
from cacr.training.building.first_layer import IMAGES as FIRST_LAYER_IMAGES
from cacr.training.building.job import Training
from cacr.training.cost.step_time import Clock
from cacr.training.loop.loop import AUTO_CHECKPOINT_SECONDS
from cacr.training.settings.resolve import FORWARD_COST, MEASURED_VIEWS, STRONG_VIEWS
from cacr.training.settings.time_rules import Price
from cacr.views import Augmentation, Views

READ = 64
"""Number of images that are read to measure the time per image."""

ENCODED = 8
"""Number of images that are encoded at once to measure the time per image."""

READER_IMAGES, PAGE_IMAGES = 4096, 4000
"""Largest number of images that the reader is fitted to and that the report shows."""

LOOK_SECONDS = 0.1
"""Seconds of a measurement in addition to the encoder: 0.6 s in total for 75 images of 64 pixels and 1.9 s for 250;
each image passes the encoder eight times."""

FIRST_LOOK = 1.4
"""The first measurement takes this many times longer, because it also examines pixels: 0.8 s and 2.5 s."""

READER_SECONDS = 0.3
"""Seconds to fit the reader in addition to encoding: 1.0, 3.4 and 9.4 s in total for 300, 1,425 and 4,096 images."""

PAGE_SECONDS, PAGE_SECONDS_PER_IMAGE, MAPPED = 2.2, 0.005, 2000
"""Seconds to write the report in addition to reading and encoding images: map, neighbours and pictures. 2.2 + 0.005
min(n, 2000) for n images, because not all go through t-SNE. In total 4.3, 13.7 and 23.0 s for 300, 1,500, 4,000."""

START_SECONDS = 2.0
"""Seconds to start loaders and threads, to import modules late, and to end the process."""

PROBE_STEPS, PROBE_SECONDS = 5, 5.0
"""Largest number of steps and seconds of the cost measurement before the first step."""

SAVED_BYTES = 5e8
"""Bytes of a checkpoint written per second, with checksum: 100 MB took 0.1 s of a core, plus some time of the disk."""


PROBED = 0.2
"""Seconds of computing to measure how much other programs slow this one down."""


class Command(NamedTuple):
    """What is known about a command after its steps were measured.

    Attributes:
        passed: seconds since it started.
        opening: seconds to open the data; the reader will need them again.
        reading: seconds per image, with all decoding processes.
        images: number of images to train on.
        measured: number of images of the diagnostics.
        per_epoch: steps per epoch.
        state: bytes of a checkpoint.
        slowed: factor by which other programs slow down a computation.
        observed: whether there are diagnostics, a reader and a report.
        encoding: seconds to compute the features of an image; None: as long as for a view of the training.
    """

    passed: float
    opening: float
    reading: float
    images: int
    measured: int
    per_epoch: int
    state: float
    slowed: float
    observed: bool
    encoding: float | None = None


def price(settings: ResolvedSettings, command: Command, step: float) -> Price:
    """The price of a run whose steps alone take ``step`` seconds.

    A view that only passes forward takes about half the time of a view in training (:data:`FORWARD_COST`), which is
    known from the step.
    """
    view = step / (settings.accumulate * settings.batch_size * settings.views)
    save = command.slowed * command.state / SAVED_BYTES
    between = save / _steps_between_saves(settings, command, step)
    rest = command.passed + command.slowed * START_SECONDS + min(PROBE_STEPS * step, PROBE_SECONDS) + save
    if settings.first_layer != "random":
        rest += min(FIRST_LAYER_IMAGES, command.images) * command.reading
    if command.observed:
        encoding = FORWARD_COST * view if command.encoding is None else command.encoding
        seen = command.reading + encoding
        reader, page = min(READER_IMAGES, command.images), min(PAGE_IMAGES, command.images)
        rest += command.opening + (reader + page) * seen + page * command.reading
        made = PAGE_SECONDS + PAGE_SECONDS_PER_IMAGE * min(MAPPED, page)
        rest += command.slowed * (READER_SECONDS + made)
        if every := settings.measure_every_epochs:
            others = (MEASURED_VIEWS + STRONG_VIEWS) * FORWARD_COST * view
            look = command.measured * (others + encoding) + command.slowed * LOOK_SECONDS
            rest += (
                command.measured * command.reading + FIRST_LOOK * look + look
            )  # at the start and at the end
            between += look / (settings.measure_every_steps or every * command.per_epoch)
    return Price(step + between, rest)


def _steps_between_saves(settings: ResolvedSettings, command: Command, step: float) -> int:
    """``auto``: the number of whole epochs that take at least some seconds."""
    if settings.checkpoint_every_steps != "auto":
        return settings.checkpoint_every_steps
    return command.per_epoch * max(1, math.ceil(AUTO_CHECKPOINT_SECONDS / (step * command.per_epoch)))


def slowdown(clock: Clock = time.monotonic, computing: Clock = time.thread_time) -> float:
    """Factor by which a computation is slower than on a free core; at least 1.

    Args:
        clock: returns seconds.
        computing: returns the seconds of core time of this thread.
    """
    started, before = clock(), computing()
    while (own := computing() - before) < PROBED:
        sum(range(10_000))
    return max(1.0, (clock() - started) / own)


@torch.no_grad()
def encoding_seconds(job: Training, clock: Clock = time.monotonic) -> float:
    """Seconds to compute the features of an image, the fastest of a few passes."""
    seen, times = job.method.encoder.info, []
    images = torch.zeros(ENCODED, seen.channels, seen.image_size, seen.image_size, device=job.fabric.device)
    training = job.method.training
    job.method.eval()
    for _ in range(3):
        started = clock()
        job.method.encoder(images).cpu()
        times.append(clock() - started)
    job.method.train(training)
    return min(times) / ENCODED


def reading_seconds(settings: ResolvedSettings, source: Source) -> float:
    """Seconds per image until the encoder can use it, if all workers of a process read."""
    preset = preset_of(settings)
    seen = feature_view_of(settings)
    view = Augmentation.centre(seen.size, seen.resize, seen.interpolation)
    views = Views([view], preset.mean, preset.std)
    count = min(READ, len(source))
    places = np.arange(count) if isinstance(source, StreamSource) else np.linspace(0, len(source) - 1, count)
    loader = Loader(
        source.subset(np.unique(places.astype(np.int64))),
        batch_size=READ,
        seed=settings.seed,
        crop=views.crop,
        shuffle=False,
        at_least=views.at_least,
        max_unreadable=1.0,
    )
    started = time.monotonic()
    read = sum(len(batch) for batch in loader.epoch(0))
    seconds = time.monotonic() - started
    return seconds / max(1, read) / max(1, min(settings.workers, available_cores()))
