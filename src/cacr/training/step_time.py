"""How long a step takes here: real batches, all that the loop does with them, after the first ones."""

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
"""Steps over which the time is averaged, where they are not very slow."""

PATIENCE = 4
"""Times the seconds of a measurement that warming up and measuring may take, when steps are slow."""

Clock = Callable[[], float]


class _Watch:
    """Decides after each step whether the steps are warm, and whether they have been timed for long enough.

    Args:
        seconds: for which steps are timed.
        ahead: steps in which worker processes work ahead of the training, and take more of the cores than later on.
        clock: seconds since some moment.
    """

    def __init__(self, seconds: float, ahead: int, clock: Clock) -> None:
        self._seconds, self._ahead, self._clock = seconds, ahead, clock
        self._began = self._first = self._last = clock()
        self._made = self._timed = 0
        self._warm = False

    def step(self) -> bool:
        """A step has ended; returns whether that was the last one."""
        now = self._last = self._clock()
        self._made += 1
        spent = now - self._began
        if self._warm:
            self._timed += 1
            long_enough = now - self._first >= self._seconds and self._timed >= LEAST_STEPS
            return long_enough or spent >= PATIENCE * self._seconds
        if spent >= PATIENCE * self._seconds:  # a single step may take minutes: then it is the measurement
            self._timed = self._made
            return True
        if spent >= self._seconds or self._made > max(1, self._ahead):
            self._warm, self._first = True, now
        return False

    def seconds_a_step(self) -> float:
        """The mean of the steps that were timed."""
        return (self._last - self._first) / self._timed


def measure_step(job: Training, seconds: float, clock: Clock = time.monotonic) -> float:
    """Train for a few seconds and return those of a step; every process must call this.

    What was trained is of no use afterwards. All batches of a step count, and the wait for them.

    Args:
        job: what to train; with more steps than are needed here.
        seconds: for which steps are timed, once they are warm.
        clock: seconds since some moment.
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
                # Clocks differ, and all processes must make the same steps: the first one decides.
                if fabric.broadcast(watch.step()):
                    break
    finally:
        job.loader.close()
    return float(fabric.broadcast(watch.seconds_a_step()))
