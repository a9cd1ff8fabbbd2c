"""The verdict on a run in words, from its figures; where the bounds come from is in ``docs/diagnostics.md``."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev
from typing import Any

from cacr.diagnostics.downhill import downhill
from cacr.runs.verdict import Name, Verdict

_Row = Mapping[str, Any]

NEEDED = frozenset(
    {"effective_rank", "positive_distance", "negative_distance", "uniformity", "entropy", "max_entropy"}
)
"""Figures of a measurement; a row without one of them is no measurement."""

STOPPING: frozenset[Name] = frozenset({"collapsed to a point", "dimensional collapse", "diverging"})
"""Verdicts that end a run with ``on_collapse: stop``."""

EARLY = 30
"""Steps before which nothing is said: every encoder starts near a point, and batch norm needs some steps."""

POINT = 0.02
"""Collapsed to a point: the mean ||x - y||^2 of two images is below this; 2 where they are spread evenly."""

FEW_DIMENSIONS = 4.0
"""Dimensional collapse: the effective rank is below this (or half of what it could be, if that is less)."""

UNSURE = 2.0
"""Not sure: a distance or a rank is above the bound of a collapse by less than this factor. In a run that fails
these figures go up and down by as much, and by other amounts on another processor."""

SLOW = 100
"""Steps before which a run may be slow and is not called *not learning*."""

NO_NEARER, NEARING = 0.8, 0.03
"""Not learning: views of one image are farther apart than the first share of the distance of two images, and this
share has not fallen by the second since the first measurement that is judged."""

NO_CHANGE = 0.05
"""Not learning either: neither that share nor that distance changed by more, nor the loss by more than its noise."""

STARVED = 0.3
"""Starved: a larger share of the time is spent in wait for data."""


def judge(rows: Sequence[_Row], *, full_rank: int, trivial_loss: float | None = None) -> Verdict | None:
    """Judge a run by its figures.

    An alarm is raised when the last two measurements agree, or the only one there is; that before the first step
    does not count. Where they agree only in being near a collapse, the verdict is *not sure*. Speed is judged by
    the steps since the measurement before.

    Args:
        rows: lines of ``metrics.jsonl``, the last one with measures.
        full_rank: the largest effective rank that there could be: images that are measured, or dimensions.
        trivial_loss: the loss of an encoder that maps all images to one point, where it is known.

    Returns:
        None where it is too early to say anything.
    """
    measured = [row for row in rows if row.keys() >= NEEDED]
    trained = [row for row in measured if row["step"] >= EARLY]
    if not trained:
        return None
    now, recent = trained[-1], trained[-2:]
    losses = _losses(rows)
    found = (
        _diverging(rows)
        or _point(recent)
        or _few_dimensions(recent, full_rank)
        or _not_learning(trained, losses, trivial_loss)
        or _starved(rows, measured)
        or _near_collapse(recent, full_rank)
        or _healthy(now)
    )
    name, evidence, advice = found
    if shrinking := downhill(now):
        evidence = [*evidence, shrinking]
    if name == "healthy" and _nearness(now) > NO_NEARER and (len(trained) == 1 or now["step"] < SLOW):
        return None  # slow or stuck: the next measurement tells
    return Verdict(name, evidence, advice, now["step"], now["epoch"])


_Found = tuple[Name, list[str], list[str]]


def _losses(rows: Sequence[_Row]) -> list[float]:
    """Those that are finite; of the last row, :func:`_diverging` looks at others too."""
    return [row["loss"] for row in rows if math.isfinite(row.get("loss", math.nan))]


def _diverging(rows: Sequence[_Row]) -> _Found | None:
    """A figure that is not finite, or a loss far above where it began and rising."""
    now = rows[-1]
    wrong = [name for name, value in now.items() if isinstance(value, float) and not math.isfinite(value)]
    if wrong:
        return diverging([f"{name} is {now[name]}" for name in wrong])
    losses = _losses(rows)
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


def diverging(evidence: list[str]) -> _Found:
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


def _point(recent: Sequence[_Row]) -> _Found | None:
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


_MORE_DIMENSIONS = [
    "weights on the near negatives: --set neg_weights=softmax, a larger t_neg, or a lower temperature",
    "more negatives: a larger --batch-size, or --framework queue",
    "less --set weight_decay=...; a wider head (--set dim=128)",
]


def _few_dimensions(recent: Sequence[_Row], full_rank: int) -> _Found | None:
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


def _near_collapse(recent: Sequence[_Row], full_rank: int) -> _Found | None:
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
        "not sure",
        evidence,
        [
            "train on: a healthy run leaves these figures behind at the next measurements, a broken one does not",
            "if it stays so, train with another --seed: runs that fail differ from each other, healthy ones agree",
            *_MORE_DIMENSIONS,
        ],
    )


def _not_learning(
    trained: Sequence[_Row], losses: Sequence[float], trivial_loss: float | None
) -> _Found | None:
    first, now, recent = trained[0], trained[-1], trained[-2:]
    if now["step"] < SLOW or not losses:
        return None
    evidence = f"two views of one image are {_nearness(now):.0%} as far apart as two images"
    stuck = len(recent) > 1 and _nearness(now) > (1 - NEARING) * _nearness(first)
    if stuck and all(_nearness(row) > NO_NEARER for row in recent):
        evidence += f", no nearer than at step {first['step']}: the encoder hardly recognises an image"
    elif len(trained) > 2 and _unchanged(trained[0], now) and _within_noise(losses):
        evidence += f", as at step {trained[0]['step']}"
    else:
        return None
    loss = f"the loss went from {losses[0]:.4g} to {losses[-1]:.4g}"
    if trivial_loss is not None:
        loss += f"; an encoder for which all images are alike has {trivial_loss:.4g}"
    return (
        "not learning",
        [evidence, loss],
        [
            "another --lr: ten times larger, then ten times smaller",
            "look at what the encoder sees (`cacr views`): views that share nothing cannot be matched",
            "look for a frozen encoder, or data in which all images are alike (`cacr doctor DATA`)",
        ],
    )


def _nearness(row: _Row) -> float:
    """The distance of two views of an image as a share of that of two images."""
    return float(row["positive_distance"] / max(row["negative_distance"], 1e-12))


def _unchanged(first: _Row, now: _Row) -> bool:
    """Whether the two distances that describe an embedding are what they were."""
    pairs = ((_nearness(row), row["negative_distance"]) for row in (first, now))
    return all(abs(b - a) <= NO_CHANGE * abs(a) for a, b in zip(*pairs, strict=True))


def _within_noise(losses: Sequence[float]) -> bool:
    """Whether the last losses differ from the first by less than these differ among themselves."""
    tenth = len(losses) // 10
    if tenth < 2:
        return False
    first, last = losses[:tenth], losses[-tenth:]
    return abs(fmean(last) - fmean(first)) < pstdev(first)


def _starved(rows: Sequence[_Row], measured: Sequence[_Row]) -> _Found | None:
    since = measured[-2]["step"] if len(measured) > 1 else 0
    waits = [row["data_wait"] for row in rows if row["step"] > since and "data_wait" in row]
    waits = waits[1:] if len(waits) > 1 else waits  # workers start at the beginning of an epoch
    if not waits or (share := fmean(waits)) < STARVED:
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


def _healthy(now: _Row) -> _Found:
    evidence = [
        f"two views of one image are {_nearness(now):.0%} as far apart as two images",
        f"the embeddings fill about {now['effective_rank']:.0f} dimensions; two images are "
        f"{now['negative_distance']:.2f} apart on average (2 where they are spread evenly)",
    ]
    if "knn" in now:
        evidence.append(f"the nearest images give the right class for {now['knn']:.1%} of the images")
    return "healthy", evidence, []
