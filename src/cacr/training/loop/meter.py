"""Averages of training metrics between two lines of the log."""

import math
import time
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from cacr.data import Batch


class Meter:
    """Averages the parts of the loss between two readings, without waiting for the device at every step.

    Attributes:
        images_of_step: images of the last step in this process, over all its batches.
    """

    def __init__(self) -> None:
        self.images_of_step = 0
        self._steps: list[int] = []
        self._parts: list[dict[str, Tensor]] = []
        self._images = 0
        self._waited = 0.0
        self._started = time.perf_counter()

    def timed(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The same batches; records the time spent waiting for them."""
        iterator = iter(batches)
        while True:
            started = time.perf_counter()
            batch = next(iterator, None)
            self._waited += time.perf_counter() - started
            if batch is None:
                return
            yield batch

    def add(self, parts: dict[str, Tensor], *, step: int, images: int) -> None:
        """Add the parts of the loss of one batch."""
        another = bool(self._steps) and self._steps[-1] == step
        self.images_of_step = images + (self.images_of_step if another else 0)
        self._steps.append(step)
        self._parts.append({name: value.detach() for name, value in parts.items()})
        self._images += images

    def first_not_finite(self) -> tuple[int, float] | None:
        """The first step since the last reading whose loss was not finite, and that loss."""
        losses = torch.stack([parts["loss"] for parts in self._parts]).tolist()
        return next(
            (pair for pair in zip(self._steps, losses, strict=True) if not math.isfinite(pair[1])), None
        )

    def loss(self) -> float:
        """The mean loss since the last reading; waits for the device."""
        return self._mean("loss")

    def _mean(self, name: str) -> float:
        return float(torch.stack([parts[name] for parts in self._parts]).mean())

    def read(self, lr: float, *, world_size: int) -> dict[str, float]:
        """The averages since the last reading."""
        means = {name: self._mean(name) for name in self._parts[0]}
        seconds = time.perf_counter() - self._started
        figures = means | {
            "lr": lr,
            "images_per_second": world_size * self._images / seconds,
            "data_wait": self._waited / seconds,
        }
        self._steps, self._parts, self._images, self._waited = [], [], 0, 0.0
        self.restart_clock()
        return figures

    def restart_clock(self) -> None:
        """Exclude the time until now from the next averages, because it was not spent on steps."""
        self._started = time.perf_counter()
