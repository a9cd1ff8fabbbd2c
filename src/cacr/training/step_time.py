"""Measure the time of a step: real batches and the complete step, after a warm-up."""

import time
from collections.abc import Callable
from contextlib import closing, nullcontext

import torch

from cacr.data.workers import BATCHES_AHEAD
from cacr.training.job import Position, Training
from cacr.training.loop import groups, take_step
from cacr.training.memory import kept_memory
from cacr.training.meter import Meter

LEAST_STEPS = 3
"""Number of steps to average over, if they are not very slow."""

PATIENCE = 4
"""Limit of warm-up and measurement, as a multiple of the time of a measurement, if steps are slow."""

Clock = Callable[[], float]


class _Watch:
    """Decides after each step whether the warm-up is over, and whether the measurement is long enough.

    Args:
        seconds: length of the measurement.
        ahead: first steps, in which workers prepare batches ahead and use more of the cores than later.
        clock: returns seconds.
    """

    def __init__(self, seconds: float, ahead: int, clock: Clock) -> None:
        self._seconds, self._ahead, self._clock = seconds, ahead, clock
        self._began = self._first = self._last = clock()
        self._made = self._timed = 0
        self._warm = False

    def step(self) -> bool:
        """Call this after each step; returns whether it was the last one."""
        now = self._last = self._clock()
        self._made += 1
        spent = now - self._began
        if self._warm:
            self._timed += 1
            long_enough = now - self._first >= self._seconds and self._timed >= LEAST_STEPS
            return long_enough or spent >= PATIENCE * self._seconds
        if (
            spent >= PATIENCE * self._seconds
        ):  # a single step may take minutes: then it is the whole measurement
            self._timed = self._made
            return True
        if spent >= self._seconds or self._made > max(1, self._ahead):
            self._warm, self._first = True, now
        return False

    def seconds_a_step(self) -> float:
        """The mean time of the measured steps."""
        return (self._last - self._first) / self._timed


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
    watch = _Watch(seconds, min(ahead, job.total_steps), clock)
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
    return float(fabric.broadcast(watch.seconds_a_step()))
