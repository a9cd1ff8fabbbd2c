"""Results next to their baselines: one line for everything that was measured in the same way."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cacr.runs.result import Result

SUBJECTS = ("encoder", "start", "untrained", "scratch", "pixels")
"""The columns of a table of results; other subjects follow."""

SHARES = ("accuracy", "mean-per-class")
"""Metrics that are shares of the test images."""


@dataclass(frozen=True)
class Standing:
    """One measurement of an encoder, and of the baselines that were measured in the same way.

    Attributes:
        of: subject -> its result.
        label: what distinguishes it from other measurements with the same protocol; may be empty.
    """

    of: dict[str, Result] = field(default_factory=dict)
    label: str = ""

    @property
    def any(self) -> Result:
        """One of its results, for the facts that all of them share."""
        return next(iter(self.of.values()))


def standings(results: Sequence[Result]) -> list[Standing]:
    """Group results by what they measure, in the order in which they come."""
    found: dict[str, dict[str, Result]] = {}
    for result in results:
        found.setdefault(_key(result), {})[result.subject] = result
    labels = _labels([next(iter(of.values())) for of in found.values()])
    return [Standing(of, label) for of, label in zip(found.values(), labels, strict=True)]


def subjects_of(found: Sequence[Standing]) -> list[str]:
    """The subjects that have results, in the order of :data:`SUBJECTS`."""
    present = dict.fromkeys(subject for standing in found for subject in standing.of)
    known = [subject for subject in SUBJECTS if subject in present]
    return known + [subject for subject in present if subject not in SUBJECTS]


@dataclass(frozen=True)
class Gain:
    """Difference between the scores of an encoder and a baseline.

    Attributes:
        points: the difference, in percentage points.
        doubt: largest difference that may be chance, in the same unit; None if it is not known.
    """

    points: float
    doubt: float | None

    @property
    def outcome(self) -> str:
        """``better``, ``worse`` or ``equal`` (not clearly different)."""
        if abs(self.points) <= (self.doubt or 0.0):
            return "equal"
        return "better" if self.points > 0 else "worse"


def gain(encoder: Result, baseline: Result) -> Gain:
    """The difference between two results that were measured in the same way.

    If the labels were drawn several times, the doubt is the sum of both spreads. If all labels were used once, it is
    twice the standard error of the difference of two shares of n test images, 2 sqrt(p (1 - p) / n + q (1 - q) / n).
    A mean over classes is treated like classes with equally many images. For other metrics it is not known.
    """
    points = 100 * (encoder.score - baseline.score)
    if encoder.spread is not None and baseline.spread is not None:
        return Gain(points, 100 * (encoder.spread + baseline.spread))
    images = encoder.counts.get("test_images", 0)
    if encoder.metric not in SHARES or images < 1:
        return Gain(points, None)
    variance = sum(r.score * (1 - r.score) for r in (encoder, baseline)) / images
    return Gain(points, 200 * math.sqrt(max(0.0, variance)))


def labels_text(result: Result) -> str:
    """``all labels`` or ``5 labels per class``."""
    few = result.labels_per_class
    return "all labels" if few is None else f"{few} label{'' if few == 1 else 's'} per class"


def _key(result: Result) -> str:
    where = [result.data, result.test_data, *result.locations, result.held_out]
    how = [
        result.protocol,
        result.metric,
        result.labels_per_class,
        result.settings,
        result.seed,
        result.weights,
    ]
    return json.dumps([where, how], sort_keys=True)


def _labels(firsts: Sequence[Result]) -> list[str]:
    """For each measurement, the facts that distinguish it from others of its protocol and number of labels."""
    labels = []
    for one in firsts:
        alike = [_facts(r) for r in firsts if _name(r) == _name(one)]
        own = _facts(one)
        differing = [name for name in own if any(other.get(name) != own[name] for other in alike)]
        labels.append(", ".join(f"{name} {own[name]}" for name in differing))
    return labels


def _name(result: Result) -> tuple[str, int | None]:
    return result.protocol, result.labels_per_class


def _facts(result: Result) -> dict[str, str]:
    places = dict.fromkeys(Path(place).name or place for place in (result.data, result.test_data))
    tested = "held out" if result.held_out else "not held out"
    facts = {"data": " and ".join(places), "test images": tested}
    facts |= {"seed": str(result.seed), "measured by": result.metric}
    steps = result.training.get("steps")
    return facts | ({"step": str(steps)} if steps else {}) | {n: str(v) for n, v in result.settings.items()}
