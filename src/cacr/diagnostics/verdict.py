"""The verdict on a run in words, from its figures; its bounds are explained in ``docs/explanation/verdict.md``."""

from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev
from typing import Any

from cacr.diagnostics.captions import find_collapsed_captions
from cacr.diagnostics.collapse import (
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
"""Figures of a measurement; a row without one of them is no measurement."""

STOPPING: frozenset[Name] = frozenset({"collapsed to a point", "dimensional collapse", "diverging"})
"""Verdicts that end a run with ``on_collapse: stop``."""

EARLY = 30
"""Steps before which nothing is said: every encoder starts near a point, and batch norm needs some steps."""

SLOW = 100
"""Steps before which a run may be slow and is not called *not learning*."""

NO_NEARER, NEARING = 0.8, 0.03
"""Not learning: views of one image are farther apart than the first share of the distance of two images, and this
share has not fallen by the second since the first measurement that is judged."""

NO_CHANGE = 0.05
"""Not learning either: neither that share nor that distance changed by more, nor the loss by more than its noise."""

STARVED = 0.3
"""Starved: a larger share of the time is spent in wait for data."""


def judge(
    rows: Sequence[_Row], *, images: int, dim: int, trivial_loss: float | None = None
) -> Verdict | None:
    """Judge a run by its figures.

    An alarm is raised when the last two measurements agree, or the only one there is; that before the first step
    does not count but as what later ones are compared with. Speed is judged by the steps since the measurement before.

    Args:
        rows: lines of ``metrics.jsonl``, the last one with measures.
        images: that are measured.
        dim: of an embedding.
        trivial_loss: the loss of an encoder that maps all images to one point, where it is known.

    Returns:
        None where it is too early to say anything.
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
        or find_shrinking(recent)
        or _not_learning(trained, finite_losses(rows), trivial_loss)
    )
    if not found and _nearness(now) > NO_NEARER and (len(trained) == 1 or now["step"] < SLOW):
        return None  # slow or stuck: the next measurement tells
    worth = _worth(measured[0], recent, images)
    found = (
        found
        or find_near_collapse(recent, full_rank)
        or (worth if worth[0] == "worse than before training" else None)
        or _starved(rows, measured)  # which may be why it is no better yet
        or worth
    )
    name, sentences, advice = found
    if shrinking := downhill(now):
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


def _distances(row: _Row) -> str:
    return (
        f"two views of one image are {_nearness(row):.0%} as far apart as two images, which are "
        f"{row['negative_distance']:.2f} apart on average (2 where they are spread evenly)"
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


def _worth(start: _Row, recent: Sequence[_Row], images: int) -> Found:
    """What features are worth against those before training."""
    if images < FEWEST:
        told = f"{images} images are too few to tell what features are worth: at least {FEWEST} are needed"
        return (
            "too few images",
            [told],
            ["train on more images, or begin with weights that have seen many: --init"],
        )
    now, *before = (gain(start, row, images=images) for row in reversed(recent))
    if now is None:
        told = "no features were measured before the first step: there is nothing to compare with"
        return "not sure yet", [told], ["measure it: `cacr evaluate`"]
    if now.outcome == "better":
        return "healthy", [*now.evidence, _distances(recent[-1])], []
    if now.outcome == "not clear" or any(each is None or each.outcome != now.outcome for each in before):
        return "not sure yet", now.evidence, ["train on; with labels, measure it: `cacr evaluate`"]
    name: Name = "worse than before training" if now.outcome == "worse" else "no better than before training"
    first = "look at what the encoder sees (`cacr views`): views must show the same thing, and not be almost the same"
    if "image_to_text" in recent[-1]:
        first = (
            "look at some images with their captions: each must belong to its image, and tell it from others"
        )
    return (
        name,
        now.evidence,
        [
            first,
            "a third of --lr, then three times as much",
            "train longer: --time or --epochs",
        ],
    )


def _starved(rows: Sequence[_Row], measured: Sequence[_Row]) -> Found | None:
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
