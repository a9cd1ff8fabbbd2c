"""Learning-rate schedules, as functions of the step alone: nothing to store, nothing to get out of step."""

import math
from collections.abc import Callable, Sequence

Schedule = Callable[[int], float]
"""Factor on the peak learning rate for the optimiser step with this number (from 0)."""


def cosine(total: int) -> Schedule:
    """Half a cosine: ``(1 + cos(pi step / total)) / 2``, from 1 towards 0."""
    return lambda step: 0.5 * (1 + math.cos(math.pi * min(step, total) / total))


def multistep(total: int, milestones: Sequence[float], gamma: float) -> Schedule:
    """Constant, multiplied by ``gamma`` at each milestone (given as a share of ``total``)."""
    return lambda step: gamma ** sum(step >= round(share * total) for share in milestones)


def constant() -> Schedule:
    """Always the peak rate."""
    return lambda step: 1.0


def with_warmup(schedule: Schedule, warmup: int) -> Schedule:
    """Linear warm-up over the first ``warmup`` steps, ``(step + 1) / warmup``, times the schedule."""
    return lambda step: schedule(step) * min(1.0, (step + 1) / warmup) if warmup else schedule(step)


def build_schedule(
    name: str, *, total: int, warmup: int, milestones: Sequence[float] = (), gamma: float = 0.1
) -> Schedule:
    """The schedule ``name`` over ``total`` steps.

    When a run is resumed with another number of epochs, the schedule is the one of a run of the new length,
    from the step of resumption on: the steps already made are not repeated.
    """
    base = {
        "cosine": cosine(total),
        "multistep": multistep(total, milestones, gamma),
        "constant": constant(),
    }[name]
    return with_warmup(base, warmup)
