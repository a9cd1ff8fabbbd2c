"""The verdict from figures alone: what raises an alarm, and what does not."""

import itertools
import math
from typing import Any, get_args

import numpy as np
import pytest

from cacr.diagnostics.verdict import STOPPING, Name, Verdict, judge

HEALTHY = {
    "positive_distance": 0.4,
    "negative_distance": 1.9,
    "effective_rank": 40.0,
    "uniformity": -3.0,
    "entropy": 4.0,
    "max_entropy": 4.8,
    "knn": 0.7,
}
POINT = {"positive_distance": 1e-4, "negative_distance": 2e-4, "uniformity": -1e-4, "entropy": 4.8}
LINE = {"effective_rank": 1.4, "negative_distance": 1.0}
BLIND = {"positive_distance": 1.85}


def _rows(
    *changes: dict[str, float], loss: list[float] | None = None, wait: float = 0.01
) -> list[dict[str, Any]]:
    """Measurements every hundred steps, the first before any, with ten lines of training between them."""
    rows: list[dict[str, Any]] = []
    for number, change in enumerate(changes):
        if number:
            for step in range(100 * number - 90, 100 * number + 1, 10):
                value = (
                    4.0 - 0.001 * step
                    if loss is None
                    else loss[min(step * len(loss) // (100 * len(changes)), len(loss) - 1)]
                )
                rows.append({"step": step, "epoch": step / 100, "loss": value, "data_wait": wait})
            rows[-1] |= {**HEALTHY, **change}
        else:
            rows.append({"step": 0, "epoch": 0.0, **HEALTHY, **change})
    return rows


def _name(rows: list[dict[str, Any]], **facts: Any) -> str | None:
    verdict = judge(rows, **{"full_rank": 128, **facts})
    return verdict and verdict.verdict


def test_healthy() -> None:
    verdict = judge(_rows(POINT, {}, {}), full_rank=128)
    assert verdict == Verdict("healthy", verdict.evidence, [], 200, 2.0)  # type: ignore[union-attr]
    assert "21%" in verdict.evidence[0] and "40 dimensions" in verdict.evidence[1]  # type: ignore[union-attr]
    assert "70.0%" in verdict.evidence[2]  # type: ignore[union-attr]


def test_nothing_is_said_before_there_is_something_to_say() -> None:
    assert judge(_rows(POINT), full_rank=128) is None
    early = _rows(POINT)
    early.append({"step": 20, "epoch": 1.0, "loss": 1.0, "data_wait": 0.0, **HEALTHY, **POINT})
    assert judge(early, full_rank=128) is None


@pytest.mark.parametrize(
    ("change", "name", "alone"),
    [
        (POINT, "collapsed to a point", "collapsed to a point"),
        (LINE, "dimensional collapse", "dimensional collapse"),
        (BLIND, "not learning", None),  # it may be slow: one measurement cannot tell
    ],
)
def test_two_measurements_must_agree(change: dict[str, float], name: str, alone: str | None) -> None:
    assert _name(_rows({}, change)) == alone
    assert _name(_rows({}, {}, change)) == "healthy"
    assert _name(_rows({}, {}, change, change)) == name
    assert _name(_rows({}, change, change, {})) == "healthy"


def test_the_largest_entropy_alone_raises_no_alarm() -> None:
    assert _name(_rows({}, *[{"entropy": 4.8}] * 3)) == "healthy"
    verdict = judge(_rows({}, POINT, POINT), full_rank=128)
    assert verdict is not None and "says nothing" in verdict.evidence[1]


def test_few_dimensions_are_all_there_is_in_a_small_space() -> None:
    two = {"effective_rank": 1.9}
    assert _name(_rows({}, two, two), full_rank=2) == "healthy"
    assert _name(_rows({}, two, two), full_rank=128) == "dimensional collapse"


@pytest.mark.parametrize(
    ("figure", "values", "alarm", "full_rank"),
    [
        ("effective_rank", np.linspace(1, 30, 500), "dimensional collapse", 128),
        ("effective_rank", np.linspace(1, 4, 500), "dimensional collapse", 4),
        ("negative_distance", np.geomspace(1e-3, 2, 500), "collapsed to a point", 128),
    ],
)
def test_no_small_change_turns_a_collapse_into_health(
    figure: str, values: np.ndarray, alarm: str, full_rank: int
) -> None:
    """Between the two, as wide as the bound itself where there is room, the verdict is not sure."""
    told = []
    for value in values.tolist():
        change = {figure: value, "positive_distance": 1e-4}
        told.append(_name(_rows({}, change, change), full_rank=full_rank))
    assert [name for name, _ in itertools.groupby(told)] == [alarm, "not sure", "healthy"]
    worst, least = (values[told.index(name)] for name in ("not sure", "healthy"))
    assert least / worst == pytest.approx(1.5 if full_rank == 4 else 2, rel=0.05)


@pytest.mark.parametrize(
    ("ranks", "name"),
    [
        ((5.0,), "not sure"),
        ((3.9, 4.1), "not sure"),
        ((4.1, 3.9), "not sure"),
        ((5.0, 7.9), "not sure"),
        ((40.0, 5.0), "healthy"),  # the next measurement tells
        ((5.0, 40.0), "healthy"),
    ],
)
def test_two_measurements_near_a_collapse_are_not_sure(ranks: tuple[float, ...], name: str) -> None:
    assert _name(_rows({}, *({"effective_rank": rank} for rank in ranks))) == name


def test_nobody_is_stopped_for_being_near_a_collapse() -> None:
    verdict = judge(_rows({}, *[{"effective_rank": 5.25}] * 2), full_rank=128)
    assert verdict is not None and verdict.verdict not in STOPPING
    assert "5.2 dimensions" in verdict.evidence[0] and "fewer than 4" in verdict.evidence[0]
    assert any("another --seed" in line for line in verdict.advice)


def test_a_run_that_learns_slowly_raises_no_alarm() -> None:
    """Views come nearer by a thirtieth from one measurement to the next, and images are hardly recognised yet."""
    slow = [{"positive_distance": 1.9 * share} for share in (0.93, 0.9, 0.87, 0.84)]
    for number in range(2, 5):
        assert _name(_rows({}, *slow[:number])) == "healthy"
    stuck = [{"positive_distance": 1.9 * share} for share in (0.93, 0.92, 0.93)]
    assert _name(_rows({}, *stuck[:2])) == _name(_rows({}, *stuck)) == "not learning"


def test_the_first_steps_may_be_slow() -> None:
    """Measured every twenty steps, no nearer: no verdict until a hundred, healthy where views are near already."""
    slow, near = [_rows({}, *[change] * 5) for change in (BLIND, {})]
    for rows in (slow, near):
        for row in rows:
            row["step"] //= 5
    ends = [number for number, row in enumerate(slow, 1) if "effective_rank" in row and row["step"]]
    assert [_name(slow[:end]) for end in ends] == [None, None, None, None, "not learning"]
    assert [_name(near[:end]) for end in ends] == [None, *["healthy"] * 4]


def test_not_learning_tells_the_trivial_loss() -> None:
    verdict = judge(_rows({}, BLIND, BLIND), full_rank=128, trivial_loss=math.log(128))
    assert verdict is not None and "alike has 4.852" in verdict.evidence[1]


def test_a_loss_above_its_value_at_a_point_is_told() -> None:
    downhill = (
        "the loss, 3.8, is above its value at a point, 0: while it is, moving everything together lowers it"
    )
    verdict = judge(_rows({}, {}, {"trivial_loss": 0.0}), full_rank=128)
    assert verdict is not None and verdict.verdict == "healthy" and verdict.evidence[-1] == downhill
    for figures in ({"trivial_loss": 4.0}, {}):
        below = judge(_rows({}, {}, figures), full_rank=128)
        assert below is not None and not any("at a point" in sentence for sentence in below.evidence)


def test_a_loss_that_does_not_move_is_not_learning_even_when_views_are_alike() -> None:
    noise = [4.0, 4.1, 3.9, 4.05, 3.95, 4.0, 4.1, 3.9, 4.02, 3.98] * 4
    assert _name(_rows({}, {}, {}, {}, loss=noise)) == "not learning"
    falling = [value - 0.02 * number for number, value in enumerate(noise)]
    assert _name(_rows({}, {}, {}, {}, loss=falling)) == "healthy"
    assert (
        _name(_rows({}, {}, {"negative_distance": 1.5}, {"negative_distance": 1.4}, loss=noise)) == "healthy"
    )


def test_diverging() -> None:
    rising = [3.0, 2.0, 1.0, 2.0, 10.0, 30.0, 60.0, 90.0]
    assert _name(_rows({}, {}, {}, {}, loss=rising)) == "diverging"
    assert _name(_rows({}, {}, {"uniformity": math.nan})) == "diverging"
    slowly = [0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0, 1.0]  # as the loss of BYOL does, while it learns
    assert _name(_rows({}, {}, {"negative_distance": 1.0}, {}, loss=slowly)) == "healthy"


def test_starved_by_the_loader_and_only_after_what_is_worse() -> None:
    assert _name(_rows({}, {}, {}, wait=0.6)) == "starved by the loader"
    assert _name(_rows({}, {}, {}, wait=0.1)) == "healthy"
    assert _name(_rows({}, POINT, POINT, wait=0.6)) == "collapsed to a point"
    recovered = _rows({}, {}, {}, wait=0.6) + [
        {"step": step, "epoch": step / 100, "loss": 1.0, "data_wait": 0.0} for step in range(210, 300, 10)
    ]
    recovered.append({"step": 300, "epoch": 3.0, "loss": 1.0, "data_wait": 0.0, **HEALTHY})
    assert _name(recovered) == "healthy"


def test_every_alarm_has_evidence_and_advice() -> None:
    alarms = [
        ("collapsed to a point", _rows({}, POINT)),
        ("dimensional collapse", _rows({}, LINE)),
        ("not learning", _rows({}, BLIND, BLIND)),
        ("diverging", _rows({}, {"uniformity": math.inf})),
        ("starved by the loader", _rows({}, {}, wait=0.9)),
        ("not sure", _rows({}, {"effective_rank": 6.0})),
        ("not sure", _rows({}, {"negative_distance": 0.03, "positive_distance": 0.01})),
    ]
    for name, rows in alarms:
        verdict = judge(rows, full_rank=128)
        assert verdict is not None and verdict.verdict == name and verdict.evidence and verdict.advice
    assert {"healthy", *(name for name, _ in alarms)} == set(get_args(Name))
