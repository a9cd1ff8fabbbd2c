"""Test the paper's claims: one contrast per claim, defined in advance, tested over seeds."""

from collections.abc import Mapping
from dataclasses import dataclass

from cacr.evaluation.results.significance import LEVEL, Difference, compare_scores
from cacr.ledger.item import Claim, Place

FEWEST_SEEDS = 2


@dataclass(frozen=True)
class Judged:
    """A claim, its contrast over seeds, and the verdict.

    Attributes:
        claim: the claim.
        difference: difference of the contrast from zero; None with too few seeds.
        verdict: ``confirmed``, ``contradicted``, ``not shown``, ``too few seeds`` or ``not run``.
    """

    claim: Claim
    difference: Difference | None
    verdict: str

    @property
    def words(self) -> str:
        """The verdict with its numbers, for a table in percent."""
        if self.difference is None:
            return self.verdict
        d = self.difference
        at_scale = f"{self.verdict} at this scale" if self.verdict != "not shown" else self.verdict
        return f"{at_scale}: {d.mean:+.2f} ({d.low:+.2f} to {d.high:+.2f}, p = {d.p:.2g}, {d.seeds} seeds, {d.test})"


def judge(claim: Claim, scores: Mapping[Place, Mapping[int, float]]) -> Judged:
    """Test whether a claim's contrast is above zero: a paired t-test over the seeds that all its places have.

    A claim of no difference is confirmed if the confidence interval of the contrast is within its bounds, and
    contradicted if the interval is outside of them.

    Args:
        claim: with its contrast.
        scores: place -> seed -> score.
    """
    sides = [scores.get(place, {}) for place in claim.contrast]
    if not all(sides):
        return Judged(claim, None, "not run")
    seeds = set.intersection(*(set(side) for side in sides))
    if len(seeds) < FEWEST_SEEDS:
        return Judged(claim, None, "too few seeds")
    sums = {
        seed: sum(weight * scores[place][seed] for place, weight in claim.contrast.items())
        for seed in sorted(seeds)
    }
    found = compare_scores(dict.fromkeys(sums, 0.0), sums)
    return Judged(claim, found, "not shown" if found is None else _verdict(claim, found))


def _verdict(claim: Claim, found: Difference) -> str:
    if claim.within is None:
        if found.p > LEVEL:
            return "not shown"
        return "confirmed" if found.mean > 0 else "contradicted"
    if -claim.within < found.low and found.high < claim.within:
        return "confirmed"
    return "contradicted" if found.low > claim.within or found.high < -claim.within else "not shown"
