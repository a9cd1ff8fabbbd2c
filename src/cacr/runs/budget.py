"""The training budget of a run, in the same units for every method."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cacr.data.order import count_batches, least_batch
from cacr.errors import UserError


@dataclass(frozen=True)
class Budget:
    """How much a run was trained.

    Attributes:
        images: Number of images of the data.
        views: Views per image.
        batch_size: Images per batch.
        steps: Optimiser steps.
        views_seen: Total number of views that passed through the encoder.
    """

    images: int
    views: int
    batch_size: int
    steps: int
    views_seen: int


def budget_of(training: dict[str, Any], accumulate: int, where: Path) -> Budget:
    """The budget, from the ``training`` part of ``encoder.json``.

    Args:
        training: Has images, views, batch_size, steps and processes.
        accumulate: Batches per step.
        where: The file, for messages.

    Raises:
        UserError: one of them is missing.
    """
    numbers = [training.get(name) for name in ("images", "views", "batch_size", "steps", "processes")]
    if not all(type(number) is int and number >= 1 for number in numbers):
        raise UserError(f"{where} does not say how many images, views and steps it was trained with")
    images, views, batch_size, steps, processes = (int(number) for number in numbers if number is not None)
    batches = max(1, count_batches(images, batch_size, least_batch(batch_size, processes)))
    epochs, rest = divmod(steps, -(-batches // accumulate))
    in_epoch = min(images, batches * batch_size)
    seen = epochs * in_epoch + min(rest * accumulate * batch_size, in_epoch)
    return Budget(images, views, batch_size, steps, seen * views)
