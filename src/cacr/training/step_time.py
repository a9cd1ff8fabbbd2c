"""Measure the time of a step: real batches and the complete step, after a warm-up."""

import time
from collections.abc import Callable
from contextlib import closing, nullcontext
from itertools import pairwise
from statistics import mean

import torch

from cacr.data.workers import BATCHES_AHEAD
from cacr.training.job import Position, Training
from cacr.training.loop import groups, take_step
from cacr.training.memory import kept_memory
from cacr.training.meter import Meter

LEAST_STEPS = 3
"""Number of steps to average over, if they are not very slow."""

LEAST_BURSTS = 4
"""From so many bursts of steps on, the slowest and the fastest quarter do not count."""

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
        self._began = clock()
        self._made = 0
        self._ends: list[float] = []

    def step(self) -> bool:
        """Call this after each step; returns whether it was the last one."""
        now = self._clock()
        self._made += 1
        spent = now - self._began
        if self._ends:
            self._ends.append(now)
            long_enough = now - self._ends[0] >= self._seconds and len(self._ends) > LEAST_STEPS
            return long_enough or spent >= PATIENCE * self._seconds
        if spent >= PATIENCE * self._seconds:
            # a single step may take minutes: then the warm-up is the whole measurement
            self._ends = [self._began + spent * step / self._made for step in range(self._made + 1)]
            return True
        if spent >= self._seconds or self._made > max(1, self._ahead):
            self._ends.append(now)
        return False

    def seconds_per_step(self) -> float:
        """The mean time of the measured steps; of many bursts, that of the middle half.

        Something else that runs on the machine for a second or two would otherwise be taken for its speed.
        """
        ends = self._ends[:: self._burst]
        if len(ends) <= LEAST_BURSTS:
            return (self._ends[-1] - self._ends[0]) / (len(self._ends) - 1)
        times = sorted((b - a) / self._burst for a, b in pairwise(ends))
        return mean(times[len(times) // 4 : len(times) - len(times) // 4])


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
    ahead = -(-BATCHES_AHEAD * job.settings.workers // job.settings.accumulate)
    watch = _Watch(seconds, min(ahead, job.total_steps), clock, max(1, job.settings.workers))
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
