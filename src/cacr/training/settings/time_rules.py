"""Rules that choose the settings of a run with a given time; this module measures nothing itself."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from cacr.config import ResolvedSettings
from cacr.encoders import patch_problem
from cacr.training.settings.described import Described
from cacr.training.settings.rules import ENOUGH_STEPS, FULL, LEAST_BATCH, LONG, NARROW, SIZES, SMALL_IMAGE

ENDLESS = 10**12
"""Number of steps if they cost nothing."""

Candidate = Mapping[str, Any]
"""Settings by name that replace those of a run without a time."""


class Price(NamedTuple):
    """Cost of a run on this machine, in seconds.

    Attributes:
        step: per step, including its share of diagnostics and checkpoints.
        rest: everything else in the command: the time so far, and the work before and after the steps.
    """

    step: float
    rest: float

    def steps(self, budget: float) -> int:
        """Number of steps in a command of ``budget`` seconds."""
        return max(0, math.floor((budget - self.rest) / self.step)) if self.step else ENDLESS


class Choice(NamedTuple):
    """The settings that were chosen.

    Attributes:
        settings: settings by name.
        price: cost of a run with them.
        reasons: reasons in words.
    """

    settings: dict[str, Any]
    price: Price
    reasons: tuple[str, ...]


def choose(
    data: Described,
    default: ResolvedSettings,
    free: Collection[str],
    budget: float,
    cost: Callable[[Candidate], Price],
    fits: Callable[[Candidate], bool],
    *,
    on_cpu: bool,
) -> Choice | None:
    """Choose encoder, width, size and number of views, and batch size for a run of ``budget`` seconds.

    On a CPU: ``small_alexnet``, with quarter width below two hours and full width above. Views of 64, 48 or 32
    pixels: the largest that is not above the images' side and allows at least :data:`ENOUGH_STEPS` steps, else the
    smallest. Number of views and batch size are the defaults; the batch is halved until it fits into memory. On other
    devices: the defaults.

    Args:
        data: the images.
        default: the settings without a time.
        free: names of settings that were not given; others are not changed.
        budget: seconds of the whole command.
        cost: measures a candidate; the chosen candidate is the last one measured.
        fits: whether a candidate fits into the free memory.
        on_cpu: whether the run computes on a CPU.

    Returns:
        None if nothing fits into memory.
    """
    found: Choice | None = None
    for candidate in _candidates(data, default, free, budget) if on_cpu else [dict[str, Any]()]:
        fitting = _within_memory(candidate, default, free, fits)
        if fitting is None:
            continue
        price = cost(fitting)
        found = Choice(fitting, price, _reasons(fitting, default, budget, price))
        if price.steps(budget) >= ENOUGH_STEPS:
            break
    return found


def _candidates(
    data: Described, default: ResolvedSettings, free: Collection[str], budget: float
) -> Iterator[dict[str, Any]]:
    """Candidates on a CPU, best first."""
    small = "small_alexnet" if "encoder" in free else default.encoder
    sizes = [default.image_size]
    if "image_size" in free:
        allowed = (size for size in SIZES if size <= max(data.side, SIZES[-1]))
        sizes = [size for size in allowed if patch_problem(small, size) is None] or sizes
    for size in sizes:
        encoder = small if size <= SMALL_IMAGE else default.encoder
        width = (FULL if budget >= LONG else NARROW) if encoder == "small_alexnet" else default.width
        own = {
            "encoder": encoder,
            "width": width,
            "image_size": size,
            "views": default.views,
            "batch_size": default.batch_size,
        }
        yield {name: value for name, value in own.items() if name in free}


def _within_memory(
    candidate: Candidate, default: ResolvedSettings, free: Collection[str], fits: Callable[[Candidate], bool]
) -> dict[str, Any] | None:
    """The candidate with the largest batch that fits; None if none fits."""
    batch = default.batch_size
    while not fits(candidate):
        batch //= 2
        if "batch_size" not in free or batch < LEAST_BATCH:
            return None
        candidate = {**candidate, "batch_size": batch}
    return dict(candidate)


def _reasons(chosen: Candidate, default: ResolvedSettings, budget: float, price: Price) -> tuple[str, ...]:
    found = []
    if "image_size" in chosen:
        enough = price.steps(budget) >= ENOUGH_STEPS
        why = f"that allow {ENOUGH_STEPS} steps" if enough else "to get more steps"
        found.append(
            f"views of {chosen['image_size']} px, {'the largest' if enough else 'the smallest'} {why}"
        )
    if "width" in chosen and chosen.get("encoder", default.encoder) == "small_alexnet":
        side = "above" if budget >= LONG else "below"
        found.append(f"small_alexnet of width {chosen['width']:g}, the rule {side} two hours on a CPU")
    if chosen.get("batch_size", default.batch_size) < default.batch_size:
        found.append(
            f"batches of {chosen['batch_size']}, because {default.batch_size} do not fit into memory"
        )
    return tuple(found)
