"""The verdict on a run, from its metrics; ``docs/explanation/verdict.md`` explains the bounds."""

from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev
from typing import Any

from cacr.diagnostics.captions import find_collapsed_captions
from cacr.diagnostics.collapse import (
    NORMED_HEAD,
    Found,
    diverging,
    find_divergence,
    find_few_dimensions,
    find_near_collapse,
    find_point,
    find_shrinking,
    finite_losses,
)
from cacr.diagnostics.downhill import downhill
from cacr.diagnostics.evidence import FEWEST
from cacr.diagnostics.gain import gain
from cacr.runs.verdict import Name, Verdict

_Row = Mapping[str, Any]

NEEDED = frozenset(
    {"effective_rank", "positive_distance", "negative_distance", "uniformity", "entropy", "max_entropy"}
)
"""Metrics of a measurement; a row without one of them is not a measurement."""

STOPPING: frozenset[Name] = frozenset({"collapsed to a point", "dimensional collapse", "diverging"})
"""Verdicts that end a run with ``on_collapse: stop``."""

EARLY = 30
"""No verdict before this step: every encoder starts near a point, and batch norm needs some steps."""

SLOW = 100
"""Before this step a run may be slow and does not count as *not learning*."""

NO_NEARER, NEARING = 0.8, 0.03
"""Not learning: the distance between views of one image is larger than the first share of the distance between two
images, and this ratio has not fallen by the second share since the first measurement after the start."""

NO_CHANGE = 0.05
"""Also not learning: ratio and distance changed by less than this, and the loss by less than its noise."""

STARVED = 0.3
"""Starved: a larger share of the time is spent waiting for data."""


def judge(
    rows: Sequence[_Row],
    *,
    images: int,
    dim: int,
    trivial_loss: float | None = None,
    can_shrink: bool = True,
) -> Verdict | None:
    """Give a verdict on a run from its metrics.

    An alarm needs the last two measurements to agree, or a single measurement if there is only one. The measurement
    before the first step is only used for comparison. Speed is judged by the steps since the previous measurement.

    Args:
        rows: lines of ``metrics.jsonl``, the last one with a measurement.
        images: number of measured images.
        dim: dimension of an embedding.
        trivial_loss: the loss of an encoder that maps all images to one point, if it is known.
        can_shrink: whether the head lets embeddings move together; otherwise nothing says or asks to change that.

    Returns:
        None if it is too early for a verdict.
    """
    measured = [row for row in rows if row.keys() >= NEEDED]
    trained = [row for row in measured if row["step"] >= EARLY]
    if not trained:
        return None
    now, recent, full_rank = trained[-1], trained[-2:], min(images, dim)
    found = (
        find_divergence(rows)
        or find_point(recent)
        or find_few_dimensions(recent, full_rank)
        or find_collapsed_captions(recent)
        or (find_shrinking(recent) if can_shrink else None)
        or _not_learning(trained, finite_losses(rows), trivial_loss)
    )
    if not found and _nearness(now) > NO_NEARER and (len(trained) == 1 or now["step"] < SLOW):
        return None  # slow or stuck: the next measurement will show
    worth = _worth(measured[0], recent, images)
    found = (
        found
        or find_near_collapse(recent, full_rank)
        or (worth if worth[0] == "worse than before training" else None)
        or _starved(rows, measured)  # a possible reason for no improvement
        or worth
    )
    name, sentences, advice = found
    if not can_shrink:
        advice = [each for each in advice if each != NORMED_HEAD]
    if can_shrink and (shrinking := downhill(now)):
        sentences = [*sentences, shrinking]
    return Verdict(name, sentences, advice, now["step"], now["epoch"])


def judge_end(what: str, step: int, epoch: float) -> Verdict:
    """The verdict on a run that ended because ``what`` is not finite."""
    return Verdict(*diverging([what]), step, epoch)


def _not_learning(
    trained: Sequence[_Row], losses: Sequence[float], trivial_loss: float | None
) -> Found | None:
    first, now, recent = trained[0], trained[-1], trained[-2:]
    if now["step"] < SLOW or not losses:
        return None
    evidence = f"two views of one image are {_nearness(now):.0%} as far apart as two images"
    stuck = len(recent) > 1 and _nearness(now) > (1 - NEARING) * _nearness(first)
    if stuck and all(_nearness(row) > NO_NEARER for row in recent):
        evidence += f", no closer than at step {first['step']}: the encoder hardly recognises images"
    elif len(trained) > 2 and _unchanged(trained[0], now) and _within_noise(losses):
        evidence += f", the same as at step {trained[0]['step']}"
    else:
        return None
    loss = f"the loss went from {losses[0]:.4g} to {losses[-1]:.4g}"
    if trivial_loss is not None:
        loss += f"; it is {trivial_loss:.4g} if all embeddings are equal"
    return (
        "not learning",
        [evidence, loss],
        [
            "try another --lr: ten times larger, then ten times smaller",
            "look at the views (`cacr views`): views that have nothing in common cannot be matched",
            "check for a frozen encoder, or data in which all images are equal (`cacr doctor DATA`)",
        ],
    )


def _distances(row: _Row) -> str:
    return (
        f"two views of one image are {_nearness(row):.0%} as far apart as two images, which are "
        f"{row['negative_distance']:.2f} apart on average (2 means evenly spread)"
    )


def _nearness(row: _Row) -> float:
    """The distance between two views of an image, divided by that between two images."""
    return float(row["positive_distance"] / max(row["negative_distance"], 1e-12))


def _unchanged(first: _Row, now: _Row) -> bool:
    """Whether the two distances that describe an embedding have not changed."""
    pairs = ((_nearness(row), row["negative_distance"]) for row in (first, now))
    return all(abs(b - a) <= NO_CHANGE * abs(a) for a, b in zip(*pairs, strict=True))


def _within_noise(losses: Sequence[float]) -> bool:
    """Whether the last losses differ from the first by less than the first differ among themselves."""
    tenth = len(losses) // 10
    if tenth < 2:
        return False
    first, last = losses[:tenth], losses[-tenth:]
    return abs(fmean(last) - fmean(first)) < pstdev(first)


def _worth(start: _Row, recent: Sequence[_Row], images: int) -> Found:
    """Compare the features with those before training."""
    if images < FEWEST:
        told = f"{images} images are too few to measure the features: at least {FEWEST} are needed"
        return (
            "too few images",
            [told],
            ["train on more images, or start from pretrained weights: --init"],
        )
    now, *before = (gain(start, row, images=images) for row in reversed(recent))
    if now is None:
        told = "no features were measured before the first step, so there is nothing to compare with"
        return "not sure yet", [told], ["measure the encoder: `cacr evaluate`"]
    if now.outcome == "better":
        return "healthy", [*now.evidence, _distances(recent[-1])], []
    if now.outcome == "not clear" or any(each is None or each.outcome != now.outcome for each in before):
        return (
            "not sure yet",
            now.evidence,
            ["continue training; with labels, measure the encoder: `cacr evaluate`"],
        )
    name: Name = "worse than before training" if now.outcome == "worse" else "no better than before training"
    first = "look at the views (`cacr views`): they must show the same object, but must not be almost equal"
    if "image_to_text" in recent[-1]:
        first = "look at some images with their captions: each caption must describe its image and no other"
    return (
        name,
        now.evidence,
        [
            first,
            "try a third of --lr, then three times --lr",
            "train longer: --time or --epochs",
        ],
    )


def _starved(rows: Sequence[_Row], measured: Sequence[_Row]) -> Found | None:
    since = measured[-2]["step"] if len(measured) > 1 else 0
    waits = [row["data_wait"] for row in rows if row["step"] > since and "data_wait" in row]
    waits = waits[1:] if len(waits) > 1 else waits  # the first is longer, because workers start with an epoch
    if not waits or (share := fmean(waits)) < STARVED:
        return None
    return (
        "starved by the loader",
        [f"{share:.0%} of the time of the last steps was spent waiting for images"],
        [
            "use more workers (--set workers=N), up to the number of cores",
            "store smaller images, or use a faster disk; `cacr doctor DATA` measures the speed of each part",
            "or use a larger encoder: while the loader is the bottleneck, it costs no extra time",
        ],
    )
