"""Report on a suite of data sets: scores, means and wins."""

from dataclasses import dataclass, field
from statistics import mean
from typing import Any

from cacr.files import printable
from cacr.runs.result import Result

DECIMALS = 3
"""Scores that are equal to a tenth of a percent are a tie, as in the paper's table."""


@dataclass(frozen=True)
class Failure:
    """A data set that could not be measured, and why."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{printable(self.name)}: {' '.join(self.reason.split())}"


@dataclass(frozen=True)
class Standing:
    """The first encoder compared with another, over the data sets that both have."""

    wins: int
    ties: int
    losses: int
    beyond_spread: int

    def __str__(self) -> str:
        text = f"{self.wins} wins, {self.ties} ties, {self.losses} losses"
        return f"{text}; {self.beyond_spread} of the wins by more than the sum of both spreads"


@dataclass
class SuiteReport:
    """Results of a suite.

    Attributes:
        name: Name of the suite.
        sets: Names of the data sets, in order.
        protocols: What was measured.
        contestants: Names of encoder and baselines, the encoder first.
        results: By data set, protocol and name.
        failures: Data sets without results.
        rival: Name of the second encoder, if there is one: the last name is ``against`` it.
    """

    name: str
    sets: list[str]
    protocols: list[str]
    contestants: list[str]
    results: dict[tuple[str, str, str], Result] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    rival: str | None = None

    def own_name(self, contestant: str) -> str:
        """The name of an encoder or baseline without prefix."""
        last = contestant == self.contestants[-1]
        return self.rival if last and self.rival is not None else contestant

    def complete(self, protocol: str) -> list[str]:
        """The data sets on which everything was measured."""
        return [s for s in self.sets if all((s, protocol, c) in self.results for c in self.contestants)]

    def mean(self, protocol: str, contestant: str) -> float:
        """Mean score over the complete data sets."""
        return mean(self.results[name, protocol, contestant].score for name in self.complete(protocol))

    def standing(self, protocol: str, other: str) -> Standing:
        """Wins, ties and losses of the first encoder against another, with scores to a tenth of a percent."""
        pairs = [
            (self.results[name, protocol, self.contestants[0]], self.results[name, protocol, other])
            for name in self.complete(protocol)
        ]
        gaps = [round(round(a.score, DECIMALS) - round(b.score, DECIMALS), DECIMALS) for a, b in pairs]
        clear = [
            gap > (a.spread or 0.0) + (b.spread or 0.0) > 0 for gap, (a, b) in zip(gaps, pairs, strict=True)
        ]
        return Standing(
            sum(gap > 0 for gap in gaps),
            sum(gap == 0 for gap in gaps),
            sum(gap < 0 for gap in gaps),
            sum(clear),
        )

    def summary(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "suite": self.name,
            "contestants": self.contestants,
            "scores": {
                protocol: {
                    name: {
                        contestant: {"score": found.score, "spread": found.spread, "metric": found.metric}
                        for contestant in self.contestants
                        if (found := self.results.get((name, protocol, contestant))) is not None
                    }
                    for name in self.sets
                }
                for protocol in self.protocols
            },
            "mean": {
                protocol: {contestant: self.mean(protocol, contestant) for contestant in self.contestants}
                for protocol in self.protocols
                if self.complete(protocol)
            },
            "standing": {
                protocol: {other: vars(self.standing(protocol, other)) for other in self.contestants[1:]}
                for protocol in self.protocols
            },
            "failures": {failure.name: failure.reason for failure in self.failures},
        }
