"""How fast a training goes now, and how long the rest of it takes."""

import math
import time
from collections.abc import Callable

MEMORY_SECONDS = 5.0
"""What lies this long ago weighs 1 / e: a machine that becomes busy is seen within seconds."""

MEMORY_STEPS = 3
"""A single step, however long, lets no more than 1 / this of the memory go: slow steps are averaged over a few, and one
that the system held up does not stand for all."""


class Pace:
    """The recent speed of the steps, and the time that goes into everything between them.

    With the duration d of step n and r = exp(-min(d / MEMORY_SECONDS, 1 / MEMORY_STEPS)), seconds T_n = r T_{n-1} + d
    and steps S_n = r S_{n-1} + 1; a step takes T_n / S_n. Measurements and checkpoints are rare and long: they count
    by their mean over the whole training, or the time left would jump with each of them.

    Args:
        clock: seconds since some moment.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = self._last = clock()
        self._seconds = self._steps = self._images = 0.0
        self._between, self._made = 0.0, 0

    def step(self, images: int) -> None:
        """A step with so many images, of all processes, has ended."""
        now = self._clock()
        duration, self._last = now - self._last, now
        kept = math.exp(-min(duration / MEMORY_SECONDS, 1 / MEMORY_STEPS))
        self._seconds = kept * self._seconds + duration
        self._steps = kept * self._steps + 1
        self._images = kept * self._images + images
        self._made += 1

    def skip(self) -> None:
        """The time since the last step went into something else."""
        now = self._clock()
        if self._made:  # what comes before the first step does not come again
            self._between += now - self._last
        self._last = now

    @property
    def seconds_a_step(self) -> float:
        """Recent seconds of a step; 0 before the first one."""
        return self._seconds / self._steps if self._steps else 0.0

    @property
    def images_per_second(self) -> float:
        """Recent images of a second; 0 before the first step."""
        return self._images / self._seconds if self._seconds else 0.0

    def left(self, steps: int) -> float:
        """Seconds that so many more steps take, with what lies between them."""
        return steps * (self.seconds_a_step + self._between / max(1, self._made))

    @property
    def spent(self) -> float:
        """Seconds since the beginning."""
        return self._clock() - self._began
