"""Find runs that fail: embeddings that collapse, and losses that diverge."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from cacr.diagnostics.downhill import downhill
from cacr.runs.verdict import Name

_Row = Mapping[str, Any]

Found = tuple[Name, list[str], list[str]]
"""A verdict, its evidence and advice."""

POINT = 0.02
"""Collapsed to a point: the mean ||x - y||^2 of two images is below this; it is 2 if they are spread evenly."""

FEW_DIMENSIONS = 4.0
"""Dimensional collapse: the effective rank is below this (or half of its largest possible value, if that is less)."""

UNSURE = 2.0
"""Not sure: a distance or a rank is above the bound of a collapse by less than this factor. In a failing run these
numbers vary by this much, and differently on another processor."""

SHRUNK = 0.5
"""Shrinking: two images are closer than this, and a smaller distance would lower the loss."""


def finite_losses(rows: Sequence[_Row]) -> list[float]:
    """The finite losses; :func:`find_divergence` handles the others."""
    return [row["loss"] for row in rows if math.isfinite(row.get("loss", math.nan))]


def find_divergence(rows: Sequence[_Row]) -> Found | None:
    """Whether a number is not finite, or the loss is far above its start and rising."""
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
            [f"the loss rose from {first:.3g} at the start to {last:.3g}; its minimum was {best:.3g}"]
        )
    return None


def diverging(evidence: list[str]) -> Found:
    """The verdict with its advice."""
    return (
        "diverging",
        evidence,
        [
            "lower --lr by a factor of 3 to 10",
            "use a longer warm-up (--set warmup_epochs=...) or clip gradients (--set clip_grad=1)",
            "train with --precision float32",
        ],
    )


def find_point(recent: Sequence[_Row]) -> Found | None:
    """Whether all images are one point."""
    if not all(row["negative_distance"] < POINT for row in recent):
        return None
    now = recent[-1]
    return (
        "collapsed to a point",
        [
            f"two images are {now['negative_distance']:.2g} apart on average, two views of one image "
            f"{now['positive_distance']:.2g} (2 means evenly spread)",
            f"uniformity is {now['uniformity']:.2g} (0 means one point); the entropy, {now['entropy']:.2f} of at most "
            f"{now['max_entropy']:.2f}, is as large as for evenly spread embeddings, so it does not help here",
        ],
        [
            *SPREAD,
            "an objective without negatives needs a predictor and a target without gradient: --method byol or simsiam",
        ],
    )


_SLOWER = "lower --lr to a third, then to a tenth: weights that became too large can map all images to a few directions"

NORMED_HEAD = "use a head whose embeddings cannot shrink: --set head=normed"
"""Advice for heads that let embeddings move together."""

SPREAD = [
    NORMED_HEAD,
    "let t- grow with the spread: --set t_neg_schedule=spread (objective cacr)",
    _SLOWER,
]

_MORE_DIMENSIONS = [
    _SLOWER,
    "give near negatives larger weights: a larger t_neg, a lower temperature, or --set neg_weights=softmax",
    "use more negatives: a larger --batch-size, or --set framework=queue",
    "lower --set weight_decay=...; use a wider head: a larger --set dim=...",
]


def find_few_dimensions(recent: Sequence[_Row], full_rank: int) -> Found | None:
    """Whether images vary in very few dimensions."""
    if not all(row["effective_rank"] < min(FEW_DIMENSIONS, full_rank / 2) for row in recent):
        return None
    now = recent[-1]
    return (
        "dimensional collapse",
        [
            f"the embeddings vary in about {now['effective_rank']:.1f} dimensions (effective rank), although two "
            f"images are {now['negative_distance']:.2f} apart on average"
        ],
        _MORE_DIMENSIONS,
    )


def find_shrinking(recent: Sequence[_Row]) -> Found | None:
    """Whether images are close together, and a smaller distance would lower the loss."""
    if not all(row["negative_distance"] < SHRUNK and downhill(row) for row in recent):
        return None
    return (
        "shrinking",
        [f"two images are {recent[-1]['negative_distance']:.2g} apart on average (2 means evenly spread)"],
        SPREAD,
    )


def find_near_collapse(recent: Sequence[_Row], full_rank: int) -> Found | None:
    """Whether numbers are just above the bounds of a collapse, so that the verdict may differ between processors."""
    now, evidence = recent[-1], []
    if all(row["negative_distance"] < UNSURE * POINT for row in recent):
        evidence.append(
            f"two images are only {now['negative_distance']:.2g} apart on average: below {POINT} means one point"
        )
    least = min(FEW_DIMENSIONS, full_rank / 2)
    enough = min(UNSURE * FEW_DIMENSIONS, 3 * full_rank / 4)
    if all(row["effective_rank"] < enough for row in recent):
        evidence.append(
            f"the embeddings vary in only about {now['effective_rank']:.1f} dimensions (effective rank): fewer than "
            f"{least:g} are a collapse, {enough:g} or more are not"
        )
    if not evidence:
        return None
    return (
        "not sure yet",
        evidence,
        [
            "continue training: in a healthy run these numbers soon improve, in a broken run they do not",
            "if they do not, train with another --seed: failing runs differ from each other, healthy runs agree",
            *_MORE_DIMENSIONS,
        ],
    )
