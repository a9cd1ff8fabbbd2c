"""Where the time of ``cacr pretrain`` goes, beside its steps: what comes before, between and after them.

Seconds that are not measured when a run starts were found on an AMD EPYC server, as time of one of its cores, and count
for more where other programs slow this one down. ``benchmarks/time_kept.py`` prints whether they hold elsewhere.
"""

import math
import os
import time
from typing import NamedTuple

import numpy as np

from cacr.config import ResolvedSettings
from cacr.data import Loader, Source, StreamSource
from cacr.training.build import preset_of
from cacr.training.first_layer import IMAGES as FIRST_LAYER_IMAGES
from cacr.training.loop import AUTO_CHECKPOINT_SECONDS
from cacr.training.resolve import FORWARD_COST, VIEWS_WORTH
from cacr.training.step_time import Clock
from cacr.training.time_rules import Price
from cacr.views import Views
from cacr.views.presets import probe_test

READ = 64
"""Images that are read to learn how long one takes."""

READER_IMAGES, PAGE_IMAGES = 4096, 4000
"""Images, at most, that the reader is fitted to and that the page shows."""

LOOK_SECONDS = 0.1
"""Of a measurement, beside passing the images through the encoder: 0.6 s in all for 75 images of 64 pixels and 1.9 s
for 250, of which each takes eight passes."""

FIRST_LOOK = 1.4
"""Times a later measurement that the first one takes, which looks at pixels too: 0.8 s and 2.5 s."""

READER_SECONDS = 0.3
"""Of fitting the reader, beside encoding: 1.0, 3.4 and 9.4 s in all for 300, 1,425 and 4,096 images."""

PAGE_SECONDS, PAGE_SECONDS_AN_IMAGE, MAPPED = 2.2, 0.005, 2000
"""Of the page, beside reading and encoding its images: their map, neighbours and pictures, 2.2 + 0.005 min(n, 2000)
for n of them, because not all go through t-SNE. In all 4.3, 13.7 and 23.0 s for 300, 1,500 and 4,000."""

START_SECONDS = 2.0
"""Of starting loaders and threads, of modules that are imported late, and of the end of the process."""

PROBE_STEPS, PROBE_SECONDS = 5, 5.0
"""Of the cost that is measured and announced before the first step, at most."""

SAVED_BYTES = 5e8
"""Of a checkpoint, written in a second with its checksum: 100 MB took 0.1 s of a core, and the disk some time more."""


PROBED = 0.2
"""Seconds of computing in which it is seen how much other programs slow this one down."""


class Command(NamedTuple):
    """What is known of a command when it has measured its steps.

    Attributes:
        passed: seconds since it began.
        opening: seconds that opening the data took, and will take again for the reader.
        reading: seconds an image, by all processes that decode.
        images: to train on.
        measured: images that the diagnostics look at.
        per_epoch: steps of an epoch.
        state: bytes of a checkpoint.
        slowed: how many times longer other programs make a computation.
        observed: whether there are diagnostics, a reader and a page.
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


def price(settings: ResolvedSettings, command: Command, step: float) -> Price:
    """The price of a run whose bare steps take ``step`` seconds.

    A view that only passes forward takes about half the time of one in training (:data:`FORWARD_COST`), which is
    known from the step.
    """
    view = step / (settings.accumulate * settings.batch_size * settings.views)
    save = command.slowed * command.state / SAVED_BYTES
    between = save / _steps_between_saves(settings, command, step)
    rest = command.passed + command.slowed * START_SECONDS + min(PROBE_STEPS * step, PROBE_SECONDS) + save
    if settings.first_layer != "random":
        rest += min(FIRST_LAYER_IMAGES, command.images) * command.reading
    if command.observed:
        seen = command.reading + FORWARD_COST * view
        reader, page = min(READER_IMAGES, command.images), min(PAGE_IMAGES, command.images)
        rest += command.opening + (reader + page) * seen + page * command.reading
        made = PAGE_SECONDS + PAGE_SECONDS_AN_IMAGE * min(MAPPED, page)
        rest += command.slowed * (READER_SECONDS + made)
        if every := settings.measure_every_epochs:
            look = command.measured * VIEWS_WORTH * view + command.slowed * LOOK_SECONDS
            rest += (
                command.measured * command.reading + FIRST_LOOK * look + look
            )  # at the start and at the end
            between += look / (settings.measure_every_steps or every * command.per_epoch)
    return Price(step + between, rest)


def _steps_between_saves(settings: ResolvedSettings, command: Command, step: float) -> int:
    """``auto``: whole epochs, as many as take at least some seconds."""
    if settings.checkpoint_every_steps != "auto":
        return settings.checkpoint_every_steps
    return command.per_epoch * max(1, math.ceil(AUTO_CHECKPOINT_SECONDS / (step * command.per_epoch)))


def slowdown(clock: Clock = time.monotonic, computing: Clock = time.thread_time) -> float:
    """How many times longer a computation takes here than it would if it had a core for itself; at least 1.

    Args:
        clock: seconds since some moment.
        computing: seconds that this thread has had a core.
    """
    started, before = clock(), computing()
    while (own := computing() - before) < PROBED:
        sum(range(10_000))
    return max(1.0, (clock() - started) / own)


def reading_seconds(settings: ResolvedSettings, source: Source) -> float:
    """Seconds that an image takes until the encoder can see it, where all workers of a process read."""
    preset = preset_of(settings)
    seen = probe_test(settings.image_size, preset.mean, preset.std)
    views = Views(seen.views, seen.mean, seen.std)
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
    return seconds / max(1, read) / max(1, min(settings.workers, os.cpu_count() or 1))
