"""Measure the time of a training step on views of noise, for a run that is about to start."""

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cacr.data import Source
from cacr.frameworks import Framework
from cacr.randomness import generator
from cacr.training.building.job import Training
from cacr.training.processes.fabric import Fabric
from cacr.views import Views

PROBE_SECONDS = 0.5
"""The test batch grows until its step takes this long, in seconds."""


@dataclass(frozen=True)
class StepCost:
    """The time of a training step in one process.

    Attributes:
        seconds: time to make the views and for the forward and backward pass.
    """

    seconds: float


def measure_cost(job: Training, source: Source) -> StepCost:
    """Time steps of a copy of the model on views of noise; every process must call this.

    The test batch starts with a few images. It grows towards this process's share of a batch only while steps are
    fast; the measured time is then scaled up.
    """
    fabric, images = job.fabric, max(2, job.settings.batch_size // job.fabric.world_size)
    probe = copy.deepcopy(job.method).to(fabric.device).train()
    count = min(images, 4)
    while True:
        times = []
        for _ in range(3):  # the first fills caches; the faster of the other two is disturbed least
            started = time.perf_counter()
            _probe_step(fabric, probe, _noise_input(job, source, count))
            times.append(time.perf_counter() - started)
        # All processes must run the same steps, because the objective may communicate.
        seconds = float(fabric.broadcast(min(times[1:])))
        if count == images or seconds > PROBE_SECONDS:
            break
        count = min(images, count * 4)
    return StepCost(seconds * images / count)


def _noise_input(job: Training, source: Source, count: int) -> list[Tensor]:
    """Input of the framework for ``count`` images; for stored features, those of the first images."""
    views = noise_views(job.views, source, count) if job.features is None else [job.features[:, :count]]
    return [x.to(job.fabric.device) for x in (*views, *job.method.blank_captions(count))]


def noise_views(views: Views, source: Source, count: int) -> list[Tensor]:
    """Views of ``count`` noise images, made in the same way as those of a source."""
    draw = generator("noise")

    def noise(*shape: int) -> Tensor:
        return torch.randint(256, shape, dtype=torch.uint8, generator=draw)

    if source.image_size is not None:
        return views(noise(count, views.channels, *source.image_size), draw)
    return views(
        [noise(len(run), count, views.channels, run[0].size, run[0].size) for run in views.runs], draw
    )


def _probe_step(fabric: Fabric, probe: Framework, views: Sequence[Tensor]) -> None:
    """One forward and backward pass."""
    with fabric.autocast():
        loss = probe(views)["loss"]
    loss.backward()
    probe.zero_grad(set_to_none=True)
    if fabric.device.type == "cuda":
        torch.cuda.synchronize()
