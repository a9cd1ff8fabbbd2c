"""Runs that fail: embeddings that fall together, and losses that leave all bounds."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from cacr.diagnostics.downhill import downhill
from cacr.runs.verdict import Name

_Row = Mapping[str, Any]

Found = tuple[Name, list[str], list[str]]
"""A verdict, its evidence and what to try."""

POINT = 0.02
"""Collapsed to a point: the mean ||x - y||^2 of two images is below this; 2 where they are spread evenly."""

FEW_DIMENSIONS = 4.0
"""Dimensional collapse: the effective rank is below this (or half of what it could be, if that is less)."""

UNSURE = 2.0
"""Not sure: a distance or a rank is above the bound of a collapse by less than this factor. In a run that fails
these figures go up and down by as much, and by other amounts on another processor."""

SHRUNK = 0.5
"""Shrinking: two images are less than this apart, while moving everything together lowers the loss."""


def finite_losses(rows: Sequence[_Row]) -> list[float]:
    """Losses without those that are not finite, of which :func:`find_divergence` speaks."""
    return [row["loss"] for row in rows if math.isfinite(row.get("loss", math.nan))]


def find_divergence(rows: Sequence[_Row]) -> Found | None:
    """A figure that is not finite, or a loss far above where it began and rising."""
    now = rows[-1]
    wrong = [name for name, value in now.items() if isinstance(value, float) and not math.isfinite(value)]
    if wrong:
        return diverging([f"{name} is {now[name]}" for name in wrong])
    losses = finite_losses(rows)
    if len(losses) < 3:
        return None
    tenth = max(1, len(losses) // 10)
    first, last = fmean(losses[:tenth]), fmean(losses[-tenth:])
    best = min(losses)
    if last > first + 2 * max(1.0, abs(first), first - best):
        return diverging(
            [f"the loss rose from {first:.3g} at the start to {last:.3g}, its least was {best:.3g}"]
        )
    return None


def diverging(evidence: list[str]) -> Found:
    """The verdict with what to try."""
    return (
        "diverging",
        evidence,
        [
            "lower --lr by a factor of 3 to 10",
            "warm up longer (--set warmup_epochs=...) or clip gradients (--set clip_grad=1)",
            "train with --precision float32",
        ],
    )


def find_point(recent: Sequence[_Row]) -> Found | None:
    """All images are one point."""
    if not all(row["negative_distance"] < POINT for row in recent):
        return None
    now = recent[-1]
    return (
        "collapsed to a point",
        [
            f"two images are {now['negative_distance']:.2g} apart on average, two views of one image "
            f"{now['positive_distance']:.2g} (2 is as far as they can be spread)",
            f"uniformity {now['uniformity']:.2g}, and 0 is one point; the entropy, {now['entropy']:.2f} of at most "
            f"{now['max_entropy']:.2f}, is as large as in an evenly spread embedding, so it says nothing here",
        ],
        [
            *SPREAD,
            "an objective without negatives needs a predictor and a held target: --method byol or simsiam",
            "lower --lr; weights that blew up can leave only one point",
        ],
    )


SPREAD = [
    "a head that cannot shrink: --set head=normed",
    "t- that grows with the spread: --set t_neg_schedule=spread (objective cacr)",
]

_MORE_DIMENSIONS = [
    "weights on the near negatives: --set neg_weights=softmax, a larger t_neg, or a lower temperature",
    "more negatives: a larger --batch-size, or --set framework=queue",
    "less --set weight_decay=...; a wider head (--set dim=128)",
]


def find_few_dimensions(recent: Sequence[_Row], full_rank: int) -> Found | None:
    """Images differ in very few ways."""
    if not all(row["effective_rank"] < min(FEW_DIMENSIONS, full_rank / 2) for row in recent):
        return None
    now = recent[-1]
    return (
        "dimensional collapse",
        [
            f"the embeddings fill about {now['effective_rank']:.1f} dimensions (effective rank), although two images "
            f"are {now['negative_distance']:.2f} apart on average"
        ],
        _MORE_DIMENSIONS,
    )


def find_shrinking(recent: Sequence[_Row]) -> Found | None:
    """Images are near each other, and nearer still would be a lower loss."""
    if not all(row["negative_distance"] < SHRUNK and downhill(row) for row in recent):
        return None
    return (
        "shrinking",
        [
            f"two images are {recent[-1]['negative_distance']:.2g} apart on average (2 is as far as they can be spread)"
        ],
        SPREAD,
    )


def find_near_collapse(recent: Sequence[_Row], full_rank: int) -> Found | None:
    """Figures that would be a collapse if they were a little smaller, and could be on another processor."""
    now, evidence = recent[-1], []
    if all(row["negative_distance"] < UNSURE * POINT for row in recent):
        evidence.append(
            f"two images are only {now['negative_distance']:.2g} apart on average: less than {POINT} is one point"
        )
    least = min(FEW_DIMENSIONS, full_rank / 2)
    enough = min(UNSURE * FEW_DIMENSIONS, 3 * full_rank / 4)
    if all(row["effective_rank"] < enough for row in recent):
        evidence.append(
            f"the embeddings fill only about {now['effective_rank']:.1f} dimensions (effective rank): fewer than "
            f"{least:g} are a collapse, {enough:g} and more are not"
        )
    if not evidence:
        return None
    return (
        "not sure yet",
        evidence,
        [
            "train on: a healthy run leaves these figures behind at the next measurements, a broken one does not",
            "if it stays so, train with another --seed: runs that fail differ from each other, healthy ones agree",
            *_MORE_DIMENSIONS,
        ],
    )
