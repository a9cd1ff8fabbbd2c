"""Estimate the speed of a training, and the time left."""

import math
import time
from collections.abc import Callable

MEMORY_SECONDS = 5.0
"""A time this long ago counts with weight 1 / e: a machine that becomes busy is noticed within seconds."""

MEMORY_STEPS = 3
"""A single step, even a long one, replaces at most 1 / this of the average: slow steps are averaged over a few, and
one delayed step does not dominate."""


class Pace:
    """The recent speed of the steps, and the time spent between them.

    With the duration d of step n and r = exp(-min(d / MEMORY_SECONDS, 1 / MEMORY_STEPS)), seconds T_n = r T_{n-1} + d
    and steps S_n = r S_{n-1} + 1; a step takes T_n / S_n. Measurements and checkpoints are rare and long: they count
    by their mean over the whole training, because otherwise the time left would jump.

    Args:
        clock: returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = self._last = clock()
        self._seconds = self._steps = self._images = 0.0
        self._between, self._made = 0.0, 0

    def step(self, images: int) -> None:
        """Call this after each step, with the number of images of all processes."""
        now = self._clock()
        duration, self._last = now - self._last, now
        kept = math.exp(-min(duration / MEMORY_SECONDS, 1 / MEMORY_STEPS))
        self._seconds = kept * self._seconds + duration
        self._steps = kept * self._steps + 1
        self._images = kept * self._images + images
        self._made += 1

    def skip(self) -> None:
        """Call this after doing something else than a step."""
        now = self._clock()
        if self._made:  # work before the first step is not repeated
            self._between += now - self._last
        self._last = now

    @property
    def seconds_per_step(self) -> float:
        """Recent seconds per step; 0 before the first step."""
        return self._seconds / self._steps if self._steps else 0.0

    @property
    def images_per_second(self) -> float:
        """Recent images per second; 0 before the first step."""
        return self._images / self._seconds if self._seconds else 0.0

    def left(self, steps: int) -> float:
        """Estimated seconds for ``steps`` more steps, including the work between them."""
        return steps * (self.seconds_per_step + self._between / max(1, self._made))

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._began
