"""Learning-rate schedules: functions of the step, without state."""

import math
from collections.abc import Callable, Sequence

Schedule = Callable[[int], float]
"""Maps the number of the optimiser step (from 0) to a factor on the peak learning rate."""


def cosine(total: int, start: int = 0) -> Schedule:
    """Half a cosine from step ``start``, where it is 1, to ``total``, where it is 0.

    (1 + cos(pi (step - start) / (total - start))) / 2
    """

    def factor(step: int) -> float:
        made = max(0, min(step, total) - start)
        return 0.5 * (1 + math.cos(math.pi * made / max(1, total - start)))

    return factor


def by_epoch(schedule: Schedule, steps_per_epoch: int) -> Schedule:
    """The same schedule, but constant within each epoch: all steps have the factor of the first step."""
    return lambda step: schedule(step // steps_per_epoch * steps_per_epoch)


def multistep(total: int, milestones: Sequence[float], gamma: float) -> Schedule:
    """Constant, multiplied by ``gamma`` at each milestone (given as a share of ``total``)."""
    return lambda step: gamma ** sum(step >= round(share * total) for share in milestones)


def constant() -> Schedule:
    """Always the peak rate."""
    return lambda step: 1.0


def with_warmup(schedule: Schedule, warmup: int) -> Schedule:
    """Linear warm-up over the first ``warmup`` steps, ``(step + 1) / warmup``, times the schedule."""
    return lambda step: schedule(step) * min(1.0, (step + 1) / warmup) if warmup else schedule(step)


def warm_cosine(total: int, warmup: float) -> Schedule:
    """Linear rise from 0 during the share ``warmup`` of ``total`` steps, then half a cosine."""

    def factor(step: int) -> float:
        share = step / total
        if share < warmup:
            return share / warmup
        return (1 + math.cos(math.pi * (share - warmup) / (1 - warmup))) / 2

    return factor


def ending_at(schedule: Schedule, share: float) -> Schedule:
    """The schedule, rescaled to end at ``share`` instead of 0."""
    return lambda step: share + (1 - share) * schedule(step)


def build_schedule(
    name: str,
    *,
    total: int,
    warmup: int,
    per_epoch: int = 1,
    milestones: Sequence[float] = (),
    gamma: float = 0.1,
    final: float = 0.0,
) -> Schedule:
    """The schedule ``name`` over ``total`` steps, with ``per_epoch`` steps per epoch; a cosine ends at ``final``.

    If a run is resumed with another number of epochs, the remaining steps follow the schedule of the new length;
    earlier steps are not repeated.
    """
    base = {
        "cosine": cosine(total),
        "cosine_epochs": by_epoch(cosine(total), per_epoch),
        "cosine_after_warmup": cosine(total, start=warmup),
        "multistep": multistep(total, milestones, gamma),
        "constant": constant(),
    }[name]
    if name.startswith("cosine"):
        base = ending_at(base, final)
    return with_warmup(base, warmup)
