"""Verdicts on claims: how many seeds they need, and what the rounding of scores allows."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cacr.evaluation.results.significance import compare_scores
from cacr.ledger import Ledger, Plan, Record, work
from cacr.ledger.cell import Cell
from cacr.ledger.claims import FEWEST_SEEDS, judge
from cacr.ledger.item import Claim
from tests.ledger.test_cells import TOY

OURS, THEIRS, OTHER, LAST = ("ours", "x"), ("theirs", "x"), ("ours", "y"), ("theirs", "y")
ABOVE = Claim.above("ours is above theirs", OURS, THEIRS)


@pytest.mark.parametrize("difference", [5.0, -5.0])
def test_two_seeds_never_decide_however_alike_their_differences_are(difference: float) -> None:
    def verdict(seeds: int) -> str:
        theirs = {seed: 50.0 + seed for seed in range(seeds)}
        ours = {seed: score + difference + 0.01 * (seed % 2) for seed, score in theirs.items()}
        return judge(ABOVE, {OURS: ours, THEIRS: theirs}).verdict

    assert verdict(2) == "not shown, too few seeds"
    assert verdict(3) == ("confirmed" if difference > 0 else "contradicted")


def test_a_claim_of_no_difference_needs_as_many_seeds() -> None:
    scores = {place: {0: 50.0, 1: 50.0} for place in (OURS, THEIRS)}
    assert judge(Claim.equal("equal", OURS, THEIRS, within=1), scores).verdict == "not shown, too few seeds"


def test_equal_differences_are_judged_by_the_rounding_of_the_scores() -> None:
    theirs = {0: 50.0, 1: 60.0, 2: 40.0}
    ours = {seed: score + 1 for seed, score in theirs.items()}

    def found(images: int) -> Any:
        return judge(ABOVE, {OURS: ours, THEIRS: theirs}, dict.fromkeys((OURS, THEIRS), 100 / images))

    assert found(100).verdict == "not shown"  # one image of a hundred more, three times
    assert found(10_000).verdict == "confirmed"  # a hundred of ten thousand more
    for images in (100, 1000):  # as two runs are compared elsewhere
        expected = compare_scores(theirs, ours, resolution=100 / images)
        assert found(images).difference == expected


def test_a_contrast_of_four_places_is_rounded_more_than_that_of_two() -> None:
    more = Claim("a difference of differences", {OURS: 1.0, THEIRS: -1.0, OTHER: 1.0, LAST: -1.0})
    level = dict.fromkeys(range(3), 50.0)
    scores = {OURS: dict.fromkeys(range(3), 52.0), THEIRS: level, OTHER: level, LAST: level}
    two, four = (judge(claim, scores, dict.fromkeys(scores, 1.0)).difference for claim in (ABOVE, more))
    assert two is not None and four is not None
    assert (four.high - four.mean) / (two.high - two.mean) == pytest.approx(2**0.5)


def _keep(ledger: Ledger, plan: Plan, **more: Any) -> None:
    """The first row is above the other by 0.01, with every seed."""
    for (place, _), cell in plan.sheet(ledger)[0].cells.items():
        scores = {"linear": {"encoder": 0.5 + 0.01 * (place[0] == "ours")}}
        budget = {"images": 1000, "views": 5, "batch_size": 10, "steps": 40, "views_seen": 2000}
        ledger.keep(cell, Record(cell.content, scores, budget=budget, **more))


def test_records_say_how_many_images_were_judged(tmp_path: Path) -> None:
    plan = Plan(TOY, "mini", seeds=FEWEST_SEEDS)
    verdicts = []
    for images in ({"linear": 50}, {"linear": 10_000}, {}):
        ledger = Ledger(tmp_path / str(images.get("linear")))
        _keep(ledger, plan, test_images=images)
        verdicts.append([each.verdict for each in plan.filled(ledger).judged])
    assert [found[0] for found in verdicts] == ["not shown", "confirmed", "not shown"]
    assert [found[1] for found in verdicts] == ["not shown", "contradicted", "not shown"]


def test_a_cell_stores_the_number_of_test_images_of_each_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def result(protocol: str, images: int, **also: float) -> Any:
        return SimpleNamespace(
            protocol=protocol, subject="encoder", score=0.5, also=also, counts={"test_images": images}
        )

    monkeypatch.setattr(
        work, "evaluate_run", lambda *_: [result("linear", 360), result("detection", 12, AP50=0.7)]
    )
    cell = Cell("encoder", {"seed": 0}, {"data": "digits", "protocol": ["linear", "detection"]})
    scores, images = work._scores(cell, Ledger(tmp_path), {"data_root": tmp_path, "download": False})
    assert scores["detection AP50"] == {"encoder": 0.7}
    assert images == {"linear": 360, "detection": 12, "detection AP50": 12}
