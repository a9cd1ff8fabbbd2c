"""Test the paper's claims: one contrast per claim, defined in advance, tested over seeds."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from cacr.evaluation.results.significance import LEVEL, Difference, compare_scores
from cacr.ledger.item import Claim, Place

FEWEST_SEEDS = 3
"""Number of seeds below which nothing is called confirmed or contradicted: with two seeds, two differences that happen
to be alike would be enough."""

SMALL = 0.05
"""Differences below this have four digits."""

TOO_FEW = "not shown, too few seeds"


@dataclass(frozen=True)
class Judged:
    """A claim, its contrast over seeds, and the verdict.

    Attributes:
        claim: the claim.
        difference: difference of the contrast from zero; None with too few seeds.
        verdict: ``confirmed``, ``contradicted``, ``not shown``, ``not shown, too few seeds`` or ``not run``.
    """

    claim: Claim
    difference: Difference | None
    verdict: str

    @property
    def words(self) -> str:
        """The verdict with its numbers; small ones, such as seconds, have more digits."""
        if self.difference is None:
            return self.verdict
        d = self.difference
        at_scale = f"{self.verdict} at this scale" if self.verdict != "not shown" else self.verdict
        mean, low, high = (
            f"{each:+.{2 if abs(d.mean) >= SMALL else 4}f}" for each in (d.mean, d.low, d.high)
        )
        return f"{at_scale}: {mean} ({low} to {high}, p = {d.p:.2g}, {d.seeds} seeds, {d.test})"


def judge(
    claim: Claim,
    scores: Mapping[Place, Mapping[int, float]],
    resolutions: Mapping[Place, float] | None = None,
) -> Judged:
    """Test whether a claim's contrast is above zero: a paired t-test over the seeds that all its places have.

    A claim of no difference is confirmed if the confidence interval of the contrast is within its bounds, and
    contradicted if the interval is outside of them.

    Args:
        claim: with its contrast.
        scores: place -> seed -> score.
        resolutions: place -> the smallest step of its scores, in their unit, if it is known.
    """
    sides = [scores.get(place, {}) for place in claim.contrast]
    if not all(sides):
        return Judged(claim, None, "not run")
    seeds = set.intersection(*(set(side) for side in sides))
    if len(seeds) < FEWEST_SEEDS:
        return Judged(claim, None, TOO_FEW)
    sums = {
        seed: sum(weight * scores[place][seed] for place, weight in claim.contrast.items())
        for seed in sorted(seeds)
    }
    found = compare_scores(dict.fromkeys(sums, 0.0), sums, resolution=_resolution(claim, resolutions or {}))
    return Judged(claim, found, "not shown" if found is None else _verdict(claim, found))


def _resolution(claim: Claim, resolutions: Mapping[Place, float]) -> float:
    """The step of two single scores whose difference is rounded as much as the contrast of a claim.

    Rounding of scores s_i with steps r_i gives sum_i w_i s_i the variance sum_i w_i^2 r_i^2 / 12, and the difference of
    two scores with the step r the variance 2 r^2 / 12.
    """
    steps = (weight * resolutions.get(place, 0.0) for place, weight in claim.contrast.items())
    return math.sqrt(sum(step**2 for step in steps) / 2)


def _verdict(claim: Claim, found: Difference) -> str:
    if claim.within is None:
        if found.p > LEVEL:
            return "not shown"
        return "confirmed" if found.mean > 0 else "contradicted"
    if -claim.within < found.low and found.high < claim.within:
        return "confirmed"
    return "contradicted" if found.low > claim.within or found.high < -claim.within else "not shown"
