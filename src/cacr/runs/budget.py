"""What a run has cost: the same units for every method."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cacr.data.order import count_batches
from cacr.errors import UserError


@dataclass(frozen=True)
class Budget:
    """How much a run has seen.

    Attributes:
        images: Of the data.
        views: Of each image.
        batch_size: Images in a batch.
        steps: Optimiser steps.
        views_seen: Views that passed through the encoder in all.
    """

    images: int
    views: int
    batch_size: int
    steps: int
    views_seen: int


def budget_of(training: dict[str, Any], accumulate: int, where: Path) -> Budget:
    """The budget from what ``encoder.json`` says about a training.

    Args:
        training: With images, views, batch_size, steps and processes.
        accumulate: Batches in a step.
        where: The file, for messages.

    Raises:
        UserError: one of them is not there.
    """
    numbers = [training.get(name) for name in ("images", "views", "batch_size", "steps", "processes")]
    if not all(type(number) is int and number >= 1 for number in numbers):
        raise UserError(f"{where} does not say with how many images, views and steps it was trained")
    images, views, batch_size, steps, processes = (int(number) for number in numbers if number is not None)
    batches = max(1, count_batches(images, batch_size, processes, keep_all=False))
    epochs, rest = divmod(steps, -(-batches // accumulate))
    in_epoch = min(images, batches * batch_size)
    seen = epochs * in_epoch + min(rest * accumulate * batch_size, in_epoch)
    return Budget(images, views, batch_size, steps, seen * views)
