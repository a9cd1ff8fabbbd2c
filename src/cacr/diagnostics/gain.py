"""Compare features with those before training: by captions, by labels of neighbours, or by stronger views."""

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

_Row = Mapping[str, Any]

Outcome = Literal["better", "no better", "worse", "not clear"]

FOUND, LOST = 2.8, 0.75
"""Factors on the odds that a stronger view finds its image, compared with before training: *better* from the first
factor on, *worse* below the second."""

NARROWED = 0.6
"""If features vary in less than this share of the dimensions before training, finding images does not count as better:
features that keep only one property, such as a colour, can find an image by it."""

FAINTLY = 2.3
"""*No better* up to this factor; between it and :data:`FOUND` the result is not clear."""

DEVIATIONS = 2.0
"""Standard deviations of chance by which the share of right neighbours must differ from before training."""

DOUBT = 1.0
"""If the share of right neighbours is lower than before training by more standard deviations of chance than this,
stronger views alone cannot make the features *better*: views are also found by what says nothing about the classes,
for example by how bright an image is."""


BOTH_WAYS = ("image_to_text", "text_to_image")
"""Metrics of images and captions that find each other."""


class Gain(NamedTuple):
    """Comparison of features with those before training.

    Attributes:
        outcome: the result in a word.
        evidence: sentences with the numbers.
    """

    outcome: Outcome
    evidence: list[str]


def gain(start: _Row, now: _Row, *, images: int) -> Gain | None:
    """Compare two measurements of the same images.

    Labels decide if there are any and the difference is larger than chance: with p and q the shares of n images whose
    neighbours are right now and before, |p - q| > 2 sqrt((p (1 - p) + q (1 - q)) / n). Otherwise stronger views
    decide, if the features do not vary in far fewer dimensions than before: with r the mean reciprocal rank at which
    they find their image, by how much the odds r / (1 - r) have grown. Odds can grow from any start, also from a good
    one, where r itself has no room.

    For a run with captions, only captions decide, in the same way: p and q are then the shares of images and captions
    that find each other. Features may be unchanged: this is so if the image encoder is not trained.

    Views that say *better* while labels point the other way, by more than :data:`DOUBT`, are *not clear*.

    Args:
        start: the measurement before the first step.
        now: a later measurement.
        images: number of measured images.

    Returns:
        None if there is nothing to compare: too few images, or no measurement before the first step.
    """
    if start.keys() & now.keys() >= set(BOTH_WAYS):
        return _by_captions(start, now, images)
    if not (start.keys() & now.keys()) >= {"strong_rank", "feature_rank"}:
        return None
    found = _odds(now["strong_rank"], images) / _odds(start["strong_rank"], images)
    kept = float(now["feature_rank"] / max(start["feature_rank"], 1e-12))
    evidence = [
        f"strongly changed views find their image at a mean reciprocal rank of {now['strong_rank']:.2f}; before "
        f"training: {start['strong_rank']:.2f} (1 is the best)",
        f"features vary in about {now['feature_rank']:.0f} dimensions; before training: "
        f"{start['feature_rank']:.0f}",
    ]
    labelled = start.keys() & now.keys() >= {"knn"}
    if labelled:
        evidence.insert(
            0,
            f"the nearest images give the right class for {now['knn']:.1%} of the images; before training: "
            f"{start['knn']:.1%}",
        )
        if decided := _by_labels(now["knn"], start["knn"], images, DEVIATIONS):
            return Gain(decided, evidence)
    outcome = _by_views(found, kept)
    if labelled and outcome == "better" and _by_labels(now["knn"], start["knn"], images, DOUBT) == "worse":
        outcome = "not clear"
    return Gain(outcome, evidence)


def _odds(rank: float, images: int) -> float:
    """The odds r / (1 - r) of a mean reciprocal rank; r is kept half of one of the ``images`` away from 0 and 1."""
    edge = 1 / (2 * images)
    inside = min(max(float(rank), edge), 1 - edge)
    return inside / (1 - inside)


def _by_captions(start: _Row, now: _Row, images: int) -> Gain:
    """Compare how well images and captions find each other among ``images`` images."""
    evidence = [
        f"{what} among {images:,} for {now[way]:.1%} of them; before training: {start[way]:.1%}"
        for way, what in zip(
            BOTH_WAYS, ("images find their caption", "captions find their image"), strict=True
        )
    ]
    found, before = (sum(row[way] for way in BOTH_WAYS) / 2 for row in (now, start))
    return Gain(_by_labels(found, before, images, DEVIATIONS) or "no better", evidence)


def _by_labels(
    now: float, before: float, images: int, deviations: float
) -> Literal["better", "worse"] | None:
    """What the labels of neighbours say; None if the difference is within so many deviations of chance."""
    chance = math.sqrt((now * (1 - now) + before * (1 - before)) / max(images, 1))
    if abs(now - before) <= deviations * chance:
        return None
    return "better" if now > before else "worse"


def _by_views(found: float, kept: float) -> Outcome:
    """What stronger views say: factors of the odds and of the dimensions, relative to before training."""
    if found >= FOUND and kept >= NARROWED:
        return "better"
    if found < LOST or kept < NARROWED / 2:
        return "worse"
    return "no better" if found <= FAINTLY else "not clear"
