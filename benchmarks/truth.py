"""Whether the verdict is true: what is said of the sweep's runs against what their features turned out to be worth.

A run is *useful* if its features are better than those it started from, on images that nobody trained on: the mean of
two gains, of kNN from all labels and of a classifier from 10 labels per class, is at least two points and two standard
errors; each counts by how certain it is. It is *useless* if the gain is below two points, and *surely* so if it is by
two standard errors. Small sets leave some runs between useful and useless, whose worth is not known: they judge
nothing. The verdict should call useful runs healthy, and no others. Bounds were chosen on some sets, and are tested on
the rest. Verdicts are those of the rules of today, from the measurements that a cell keeps.

    python benchmarks/truth.py                   # the verdict without labels, and with labels
    python benchmarks/truth.py --runs            # and every run with its figures
"""

import argparse
import json
import operator
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from _sets import CHOSEN_ON, TESTED_ON
from sweep import BASE, READ, RESULTS

USEFUL, ERRORS = 0.02, 2.0
"""Gain from which a run is useful, and how many of its standard errors it must be."""

UNSURE = ("not sure yet", "too few images", "none yet")
DIM, DRAWS = 128, 5
"""Of an embedding, and of the labels."""


class Judged(NamedTuple):
    """A run, what its features gained, and what is said of it."""

    cell: dict[str, Any]
    gain: float
    error: float
    told: str

    @property
    def useful(self) -> bool | None:
        """Whether it was worth the time; None where the gain may be chance."""
        if self.gain < USEFUL:
            return False
        return True if self.gain >= ERRORS * self.error else None

    @property
    def surely_useless(self) -> bool:
        """Whether it was not worth the time, beyond chance."""
        return self.gain + ERRORS * self.error < USEFUL


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("--runs", action="store_true", help="list all runs")
    options = parser.parse_args()
    cells = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*min*.json"))]
    cells = [cell for cell in cells if "encoder knn" in cell]
    for labels in (False, True):
        runs = [judged(cell, labels=labels) for cell in cells]
        if options.runs:
            for run in sorted(runs, key=lambda run: run.gain):
                print(line(run))
        print(f"\n### {'With' if labels else 'Without'} labels\n")
        print(
            "| sets | runs | worth not known | not sure | useful | called healthy | useless | not called healthy "
            "| surely useless | not called healthy |"
        )
        print("|---|---|---|---|---|---|---|---|---|---|")
        for title, sets in (("chosen on", CHOSEN_ON), ("tested on", TESTED_ON)):
            print(summary(f"{title}: {', '.join(sets)}", [run for run in runs if run.cell["set"] in sets]))


def judged(cell: dict[str, Any], *, labels: bool) -> Judged:
    from cacr.diagnostics.verdict import judge

    rows = [{k: v for k, v in row.items() if labels or k != "knn"} for row in cell["rows"]]
    shrinks = (BASE | cell["settings"])["head"] != "normed"
    verdict = judge(rows, images=cell["measured"], dim=DIM, trivial_loss=0.0, can_shrink=shrinks)
    return Judged(cell, *gain_of(cell), verdict.verdict if verdict else "none yet")


def gain_of(cell: dict[str, Any]) -> tuple[float, float]:
    """The mean of both gains, each with weight 1 / variance (over judged images and draws of labels), and its error.

    The error is that of shares of different images; on the same images it is smaller.
    """
    images = cell["judged on"]
    knn = [cell[f"{subject} knn"][READ] for subject in ("encoder", "start")]
    ridge = [cell[f"{subject} ridge"] for subject in ("encoder", "start")]
    chance = [sum(share * (1 - share) / images for share in shares) for shares in (knn, ridge)]
    draws = sum(cell[f"{subject} ridge spread"] ** 2 / DRAWS for subject in ("encoder", "start"))
    weights = 1 / chance[0], 1 / (chance[1] + draws)
    gains = knn[0] - knn[1], ridge[0] - ridge[1]
    return sum(map(operator.mul, weights, gains)) / sum(weights), sum(weights) ** -0.5


def summary(title: str, runs: Sequence[Judged]) -> str:
    """A row of the table: shares are of the runs of which the verdict is sure."""
    known = [run for run in runs if run.useful is not None]
    unsure = [run for run in known if run.told in UNSURE]
    sure = [run for run in known if run.told not in UNSURE]
    useful, useless = ([run for run in sure if run.useful is wanted] for wanted in (True, False))
    surely = [run for run in useless if run.surely_useless]
    counts = f"{len(runs)} | {len(runs) - len(known)} | {len(unsure)}"
    shares = [f"{len(useful)} | {share(run.told == 'healthy' for run in useful)}"]
    shares += [f"{len(part)} | {share(run.told != 'healthy' for run in part)}" for part in (useless, surely)]
    return f"| {title} | {counts} | {' | '.join(shares)} |"


def share(held: Iterable[bool]) -> str:
    known = list(held)
    return f"{sum(known) / len(known):.2f}" if known else ""


def line(run: Judged) -> str:
    start, now = run.cell["rows"][0], run.cell["rows"][-1]
    factors = (
        f"{name} x {now[name] / start[name]:.2f}"
        for name in ("strong_rank", "feature_rank", "strong_agreement")
    )
    return (
        f"{run.cell['set']:<11} {run.cell['minutes']:g} min {run.cell['arm']:<30} {100 * run.gain:+5.1f} ± "
        f"{100 * run.error:.1f} points  "
        f"{'  '.join(factors)}  {run.told}"
    )


if __name__ == "__main__":
    main()
