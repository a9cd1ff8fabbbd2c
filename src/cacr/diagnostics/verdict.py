"""The verdict on a run in words, from its figures; where the bounds come from is in ``docs/diagnostics.md``."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Name = Literal[
    "healthy",
    "collapsed to a point",
    "dimensional collapse",
    "not learning",
    "diverging",
    "starved by the loader",
]
Row = Mapping[str, Any]

STOPPING: frozenset[Name] = frozenset({"collapsed to a point", "dimensional collapse", "diverging"})
"""Verdicts that end a run with ``on_collapse: stop``."""

EARLY = 30
"""Steps before which nothing is said: every encoder starts near a point, and batch norm needs some steps."""

POINT = 0.02
"""Collapsed to a point: the mean ||x - y||^2 of two images is below this; 2 where they are spread evenly."""

LEAST_RANK = 3.0
"""Dimensional collapse: the effective rank is below this, although the images are apart."""

NO_NEARER = 0.9
"""Not learning: views of one image are not nearer to one another than this share of the distance of two images."""

NO_CHANGE = 0.02
"""Not learning: since before the first step neither that share nor the distance of two images changed by more."""

STARVED = 0.3
"""Starved: a larger share of the time is spent in wait for data."""


@dataclass(frozen=True)
class Verdict:
    """What is to be thought of a run.

    Attributes:
        verdict: in words.
        evidence: sentences with the figures that it rests on.
        advice: what to try.
        step: optimiser steps made.
        epoch: epochs made.
    """

    verdict: Name
    evidence: list[str]
    advice: list[str]
    step: int
    epoch: float


def judge(rows: Sequence[Row], *, trivial_loss: float | None = None) -> Verdict | None:
    """Judge a run by its figures.

    An alarm is raised when the last two measurements agree, or the only one there is; that before the first step
    does not count. Speed is judged by the steps since the measurement before.

    Args:
        rows: lines of ``metrics.jsonl``, the last one with measures.
        trivial_loss: the loss of an encoder that maps all images to one point, where it is known.

    Returns:
        None where it is too early to say anything.
    """
    measured = [row for row in rows if "effective_rank" in row]
    start, now = measured[0], measured[-1]
    trained = [row for row in measured if row["step"] >= EARLY]
    if not trained:
        return None
    recent = trained[-2:]
    found = (
        _diverging(rows)
        or _point(recent)
        or _few_dimensions(recent)
        or _not_learning(recent, start if start["step"] == 0 else None, rows, trivial_loss)
        or _starved(rows, measured)
        or _healthy(now)
    )
    name, evidence, advice = found
    return Verdict(name, evidence, advice, now["step"], now["epoch"])


Found = tuple[Name, list[str], list[str]]


def _diverging(rows: Sequence[Row]) -> Found | None:
    """A figure that is not finite, or a loss far above where it began and rising."""
    now = rows[-1]
    wrong = [name for name, value in now.items() if isinstance(value, float) and not math.isfinite(value)]
    if wrong:
        return diverging([f"{name} is {now[name]}" for name in wrong])
    losses = [row["loss"] for row in rows if "loss" in row]
    if len(losses) < 3:
        return None
    tenth = max(1, len(losses) // 10)
    first, last = (sum(part) / len(part) for part in (losses[:tenth], losses[-tenth:]))
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


def _point(recent: Sequence[Row]) -> Found | None:
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
            "an objective without negatives needs a predictor and a held target: another --framework",
            "lower --lr; weights that blew up can leave only one point",
            "more weight on the repulsion (cacr: --set repulsion=1 attraction=1 are the defaults)",
        ],
    )


def _few_dimensions(recent: Sequence[Row]) -> Found | None:
    if not all(row["effective_rank"] < LEAST_RANK for row in recent):
        return None
    now = recent[-1]
    return (
        "dimensional collapse",
        [
            f"the embeddings fill about {now['effective_rank']:.1f} dimensions (effective rank), although two images "
            f"are {now['negative_distance']:.2f} apart on average"
        ],
        [
            "weights on the near negatives: --set neg_weights=softmax, a larger t_neg, or a lower temperature",
            "more negatives: a larger --batch-size, or --framework queue",
            "less --set weight_decay=...; a wider head (--set dim=128)",
        ],
    )


def _not_learning(
    recent: Sequence[Row], start: Row | None, rows: Sequence[Row], trivial_loss: float | None
) -> Found | None:
    now = recent[-1]
    evidence = []
    if all(_nearness(row) > NO_NEARER for row in recent):
        evidence.append(
            f"two views of one image are {_nearness(now):.0%} as far apart as two images: "
            "the encoder does not recognise an image"
        )
    elif start is not None and all(_unchanged(row, start) for row in recent):
        evidence.append(
            f"two views of one image are {_nearness(now):.0%} as far apart as two images, "
            f"as before the first step ({_nearness(start):.0%})"
        )
    if not evidence:
        return None
    losses = [row["loss"] for row in rows if "loss" in row]
    evidence.append(f"the loss went from {losses[0]:.4g} to {losses[-1]:.4g}")
    if trivial_loss is not None:
        evidence[-1] += f"; an encoder for which all images are alike has {trivial_loss:.4g}"
    return (
        "not learning",
        evidence,
        [
            "another --lr: ten times larger, then ten times smaller",
            "look at what the encoder sees (`cacr views`): views that share nothing cannot be matched",
            "look for a frozen encoder, or data in which all images are alike (`cacr doctor DATA`)",
        ],
    )


def _nearness(row: Row) -> float:
    """The distance of two views of an image as a share of that of two images."""
    return float(row["positive_distance"] / max(row["negative_distance"], 1e-12))


def _unchanged(row: Row, start: Row) -> bool:
    def moved(now: float, then: float) -> float:
        return abs(now - then) / max(abs(then), 1e-12)

    return (
        moved(_nearness(row), _nearness(start)) < NO_CHANGE
        and moved(row["negative_distance"], start["negative_distance"]) < NO_CHANGE
    )


def _starved(rows: Sequence[Row], measured: Sequence[Row]) -> Found | None:
    since = measured[-2]["step"] if len(measured) > 1 else 0
    waits = [row["data_wait"] for row in rows if row["step"] > since and "data_wait" in row]
    waits = waits[1:] if len(waits) > 1 else waits  # workers start at the beginning of an epoch
    if not waits or (share := sum(waits) / len(waits)) < STARVED:
        return None
    return (
        "starved by the loader",
        [f"{share:.0%} of the time of the last steps was spent in wait for images"],
        [
            "more processes that decode (--set workers=N), up to the number of cores",
            "store the images smaller, or on a faster disk; `cacr doctor DATA` measures where the time goes",
            "a larger encoder costs nothing while it waits",
        ],
    )


def _healthy(now: Row) -> Found:
    evidence = [
        f"two views of one image are {_nearness(now):.0%} as far apart as two images",
        f"the embeddings fill about {now['effective_rank']:.0f} dimensions; two images are "
        f"{now['negative_distance']:.2f} apart on average (2 where they are spread evenly)",
    ]
    if "knn" in now:
        evidence.append(f"the nearest images give the right class for {now['knn']:.1%} of the images")
    return "healthy", evidence, []
