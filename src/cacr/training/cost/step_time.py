"""Measure the time of a step: real batches and the complete step, after a warm-up."""

import time
from collections.abc import Callable
from contextlib import closing, nullcontext
from itertools import pairwise
from statistics import mean

import torch

from cacr.data.workers import BATCHES_AHEAD
from cacr.training.building.job import Position, Training
from cacr.training.loop.loop import groups, take_step
from cacr.training.loop.memory import kept_memory
from cacr.training.loop.meter import Meter

LEAST_STEPS = 3
"""Number of steps to average over, if they are not very slow."""

LEAST_BURSTS = 4
"""With this number of bursts or more, the slowest and the fastest quarter of them do not count."""

PATIENCE = 4
"""Limit of warm-up and measurement, as a multiple of the time of a measurement, if steps are slow."""

Clock = Callable[[], float]


class _Watch:
    """Decides after each step whether the warm-up is over, and whether the measurement is long enough.

    Args:
        seconds: length of the measurement.
        ahead: first steps, in which workers prepare batches ahead and use more of the cores than later.
        clock: returns seconds.
        burst: steps that follow each other quickly, and then wait for the next ones, if decoding is the bottleneck: one
            from each worker.
    """

    def __init__(self, seconds: float, ahead: int, clock: Clock, burst: int = 1) -> None:
        self._seconds, self._ahead, self._clock, self._burst = seconds, ahead, clock, burst
        self._ends = [clock()]  # of the steps, after the beginning of the first one
        self._warm = 0  # the last step of the warm-up; 0: none, and every step counts

    def step(self) -> bool:
        """Call this after each step; returns whether it was the last one."""
        now = self._clock()
        self._ends.append(now)
        made, spent = len(self._ends) - 1, now - self._ends[0]
        if spent >= PATIENCE * self._seconds:
            return True
        if self._warm:
            return now - self._ends[self._warm] >= self._seconds and made - self._warm >= LEAST_STEPS
        if spent >= self._seconds or made > max(1, self._ahead):
            self._warm = made
        return False

    def seconds_per_step(self) -> float:
        """The mean time of the measured steps; of many bursts, that of the middle half.

        Something else that runs on the machine for a second or two would otherwise be taken for its speed.
        """
        ends = self._ends[self._warm :]
        bursts = sorted((b - a) / self._burst for a, b in pairwise(ends[:: self._burst]))
        if not self._warm or len(bursts) < LEAST_BURSTS:  # a single step may take minutes
            return (ends[-1] - ends[0]) / (len(ends) - 1)
        return mean(bursts[len(bursts) // 4 : len(bursts) - len(bursts) // 4])


def measure_step(job: Training, seconds: float, clock: Clock = time.monotonic) -> float:
    """Train for a few seconds and return the seconds per step; every process must call this.

    The trained weights are not used afterwards. The time includes all batches of a step, and waiting for them.

    Args:
        job: what to train; it must have more steps than are measured.
        seconds: length of the measurement, after the warm-up.
        clock: returns seconds.
    """
    fabric, position, meter = job.fabric, Position(), Meter()
    job.model.train()
    workers, accumulate = job.settings.workers, job.settings.accumulate
    ahead, burst = -(-BATCHES_AHEAD * workers // accumulate), max(1, -(-workers // accumulate))
    watch = _Watch(seconds, min(ahead, job.total_steps), clock, burst)
    keeping = kept_memory() if fabric.device.type == "cpu" else nullcontext()
    try:
        with keeping, closing(groups(job, position, meter)) as batches:
            for group in batches:
                take_step(job, position, group, meter)
                position.advance(len(group), job.loader.batches_per_epoch)
                if fabric.device.type == "cuda":
                    torch.cuda.synchronize()
                # Clocks differ, but all processes must do the same steps: the first one decides.
                if fabric.broadcast(watch.step()):
                    break
    finally:
        job.loader.close()
    return float(fabric.broadcast(watch.seconds_per_step()))
