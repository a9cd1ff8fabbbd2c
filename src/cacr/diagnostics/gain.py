"""Whether a run is worth more than before training: by captions, by the neighbours' labels, or by stronger views."""

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

_Row = Mapping[str, Any]

Outcome = Literal["better", "no better", "worse", "not clear"]

FOUND, LOST = 2.4, 0.75
"""How often a stronger view finds its image, over how often it did before training: *better* from the first factor on,
*worse* below the second."""

NARROWED = 0.6
"""Share of the dimensions that features varied in before training below which that alone does not count as better:
features that keep one thing, such as a colour, can find an image by it."""

FAINTLY = 2.0
"""*No better* up to this factor; between it and :data:`FOUND` it is not clear."""

DEVIATIONS = 2.0
"""Standard deviations of chance by which the share of right neighbours must differ from that before training."""


BOTH_WAYS = ("image_to_text", "text_to_image")
"""Figures of images and captions that find each other."""


class Gain(NamedTuple):
    """Features against those before training.

    Attributes:
        outcome: in a word.
        evidence: sentences with the figures.
    """

    outcome: Outcome
    evidence: list[str]


def gain(start: _Row, now: _Row, *, images: int) -> Gain | None:
    """Compare two measurements of the same images.

    Labels decide where they are there and the difference is more than chance; with p and q the shares of n images whose
    neighbours are right now and before, that is |p - q| > 2 sqrt((p (1 - p) + q (1 - q)) / n). Else a stronger view
    decides: by how much the mean reciprocal rank at which it finds its image has grown, unless the features vary in far
    fewer dimensions than before.

    Of a run with captions these alone decide, in the same way: p and q are then the shares of images and captions that
    find each other. Features may be as they were there: where the image encoder is not trained, they are.

    Args:
        start: the measurement before the first step.
        now: a later one.
        images: that were measured.

    Returns:
        None where there is nothing to compare: too few images to measure, or no measurement before the first step.
    """
    if start.keys() & now.keys() >= set(BOTH_WAYS):
        return _by_captions(start, now, images)
    if not (start.keys() & now.keys()) >= {"strong_rank", "feature_rank"}:
        return None
    found = float(now["strong_rank"] / max(start["strong_rank"], 1e-12))
    kept = float(now["feature_rank"] / max(start["feature_rank"], 1e-12))
    evidence = [
        f"strongly changed views find their image at a mean reciprocal rank of {now['strong_rank']:.2f}, before "
        f"training {start['strong_rank']:.2f} (1 is always first)",
        f"features vary in about {now['feature_rank']:.0f} dimensions, before training in "
        f"{start['feature_rank']:.0f}",
    ]
    labelled = start.keys() & now.keys() >= {"knn"}
    if labelled:
        evidence.insert(
            0,
            f"the nearest images give the right class for {now['knn']:.1%} of the images, before training "
            f"{start['knn']:.1%}",
        )
        if decided := _by_labels(now["knn"], start["knn"], images):
            return Gain(decided, evidence)
    return Gain(_by_views(found, kept), evidence)


def _by_captions(start: _Row, now: _Row, images: int) -> Gain:
    """What images and captions that look for each other say, each among ``images``."""
    evidence = [
        f"{what} among {images:,} for {now[way]:.1%} of them, before training {start[way]:.1%}"
        for way, what in zip(
            BOTH_WAYS, ("images find their caption", "captions find their image"), strict=True
        )
    ]
    found, before = (sum(row[way] for way in BOTH_WAYS) / 2 for row in (now, start))
    return Gain(_by_labels(found, before, images) or "no better", evidence)


def _by_labels(now: float, before: float, images: int) -> Literal["better", "worse"] | None:
    """What the neighbours' classes say; None where it may be chance."""
    chance = math.sqrt((now * (1 - now) + before * (1 - before)) / max(images, 1))
    if abs(now - before) <= DEVIATIONS * chance:
        return None
    return "better" if now > before else "worse"


def _by_views(found: float, kept: float) -> Outcome:
    """What stronger views say, as factors of what was before training."""
    if found >= FOUND and kept >= NARROWED:
        return "better"
    if found < LOST or kept < NARROWED / 2:
        return "worse"
    return "no better" if found <= FAINTLY else "not clear"
