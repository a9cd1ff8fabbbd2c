"""Test whether a difference is larger than the noise between seeds: t-tests, corrected for multiple tests."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

LEVEL = 0.05
"""Largest corrected p-value of a significant difference."""


@dataclass(frozen=True)
class Difference:
    """Difference between two sets of scores, and its uncertainty.

    Attributes:
        mean: Mean of the second minus mean of the first.
        low: Lower end of the 95 % confidence interval.
        high: Upper end.
        p: Two-sided p-value.
        test: ``paired t`` or ``Welch t``.
        seeds: Number of paired differences; for Welch's test, the smaller number of scores.
    """

    mean: float
    low: float
    high: float
    p: float
    test: str
    seeds: int


def compare_scores(
    first: Mapping[int, float], second: Mapping[int, float], *, resolution: float = 0.0
) -> Difference | None:
    """Compare scores by seed: paired if at least two seeds are in both, otherwise by Welch's test.

    t = mean(d) / sqrt(var(d) / n) over the n differences d of scores with the same seed, n - 1 degrees of freedom.
    Scores that are shares of N test images are rounded to 1/N. So the variance of a score is assumed to be at least
    that of rounding, resolution^2 / 12: a few equal differences on a few images do not prove anything.

    Args:
        first: Seed -> score.
        second: Seed -> score.
        resolution: The smallest step of a score.

    Returns:
        None if there are too few seeds.
    """
    rounding = resolution**2 / 12
    shared = sorted(first.keys() & second.keys())
    if len(shared) >= 2:
        differences = [second[seed] - first[seed] for seed in shared]
        spread = max(variance(differences), 2 * rounding)
        return _difference(fmean(differences), spread / len(shared), len(shared) - 1, "paired t", len(shared))
    if min(len(first), len(second)) < 2:
        return None
    parts = [max(variance(scores.values()), rounding) / len(scores) for scores in (first, second)]
    weights = sum(part**2 / (len(scores) - 1) for part, scores in zip(parts, (first, second), strict=True))
    degrees = sum(parts) ** 2 / weights if weights else len(first) + len(second) - 2
    mean = fmean(second.values()) - fmean(first.values())
    return _difference(mean, sum(parts), degrees, "Welch t", min(len(first), len(second)))


def _difference(mean: float, squared_error: float, degrees: float, test: str, seeds: int) -> Difference:
    from scipy.stats import t as student

    error = math.sqrt(squared_error)
    if not error:  # equal scores of a metric with unknown resolution
        return Difference(mean, mean, mean, 1.0, test, seeds)
    half = float(student.ppf(0.975, degrees)) * error
    p = 2 * float(student.sf(abs(mean) / error, degrees))
    return Difference(mean, mean - half, mean + half, p, test, seeds)


def holm(values: Sequence[float]) -> list[float]:
    """Holm's corrected p-values: they bound the probability of any false positive among all tests.

    With p_(1) <= ... <= p_(m): corrected p_(i) = max over j <= i of min(1, (m - j + 1) p_(j)).
    """
    corrected = [0.0] * len(values)
    largest = 0.0
    for rank, number in enumerate(sorted(range(len(values)), key=lambda index: values[index])):
        largest = max(largest, min(1.0, (len(values) - rank) * values[number]))
        corrected[number] = largest
    return corrected
