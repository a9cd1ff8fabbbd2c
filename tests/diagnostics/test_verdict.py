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
    "strong_rank": 0.4,
    "feature_rank": 200.0,
}
START = {"knn": 0.3, "strong_rank": 0.1, "feature_rank": 150.0}
POINT = {"positive_distance": 1e-4, "negative_distance": 2e-4, "uniformity": -1e-4, "entropy": 4.8}
LINE = {"effective_rank": 1.4, "negative_distance": 1.0}
BLIND = {"positive_distance": 1.85}
WORSE = {"knn": 0.1, "strong_rank": 0.02, "feature_rank": 20.0}
SHRINKING = {"negative_distance": 0.2, "positive_distance": 0.1, "trivial_loss": 0.0}


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
            rows.append({"step": 0, "epoch": 0.0, **HEALTHY, **START, **change})
    return rows


def _judge(rows: list[dict[str, Any]], **facts: Any) -> Verdict | None:
    return judge(rows, **{"images": 256, "dim": 128, **facts})


def _name(rows: list[dict[str, Any]], **facts: Any) -> str | None:
    verdict = _judge(rows, **facts)
    return verdict and verdict.verdict


def test_healthy() -> None:
    verdict = _judge(_rows(POINT, {}, {}))
    assert verdict == Verdict("healthy", verdict.evidence, [], 200, 2.0)  # type: ignore[union-attr]
    assert [
        number in text for number, text in zip(("70.0%", "0.40", "200", "21%"), verdict.evidence, strict=True)
    ]  # type: ignore[union-attr]


def test_nothing_is_said_before_there_is_something_to_say() -> None:
    assert _judge(_rows(POINT)) is None
    early = _rows(POINT)
    early.append({"step": 20, "epoch": 1.0, "loss": 1.0, "data_wait": 0.0, **HEALTHY, **POINT})
    assert _judge(early) is None


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
    verdict = _judge(_rows({}, POINT, POINT))
    assert verdict is not None and "does not help" in verdict.evidence[1]


def test_few_dimensions_are_all_there_is_in_a_small_space() -> None:
    two = {"effective_rank": 1.9}
    assert _name(_rows({}, two, two), dim=2) == "healthy"
    assert _name(_rows({}, two, two)) == "dimensional collapse"


@pytest.mark.parametrize(
    ("figure", "values", "alarm", "dim"),
    [
        ("effective_rank", np.linspace(1, 30, 500), "dimensional collapse", 128),
        ("effective_rank", np.linspace(1, 4, 500), "dimensional collapse", 4),
        ("negative_distance", np.geomspace(1e-3, 2, 500), "collapsed to a point", 128),
    ],
)
def test_no_small_change_turns_a_collapse_into_health(
    figure: str, values: np.ndarray, alarm: str, dim: int
) -> None:
    """Between the two, as wide as the bound itself where there is room, the verdict is not sure."""
    told = []
    for value in values.tolist():
        change = {figure: value, "positive_distance": 1e-4}
        told.append(_name(_rows({}, change, change), dim=dim))
    assert [name for name, _ in itertools.groupby(told)] == [alarm, "not sure yet", "healthy"]
    worst, least = (values[told.index(name)] for name in ("not sure yet", "healthy"))
    assert least / worst == pytest.approx(1.5 if dim == 4 else 2, rel=0.05)


@pytest.mark.parametrize(
    ("ranks", "name"),
    [
        ((5.0,), "not sure yet"),
        ((3.9, 4.1), "not sure yet"),
        ((4.1, 3.9), "not sure yet"),
        ((5.0, 7.9), "not sure yet"),
        ((40.0, 5.0), "healthy"),  # the next measurement tells
        ((5.0, 40.0), "healthy"),
    ],
)
def test_two_measurements_near_a_collapse_are_not_sure(ranks: tuple[float, ...], name: str) -> None:
    assert _name(_rows({}, *({"effective_rank": rank} for rank in ranks))) == name


def test_nobody_is_stopped_for_being_near_a_collapse() -> None:
    verdict = _judge(_rows({}, *[{"effective_rank": 5.25}] * 2))
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
    verdict = _judge(_rows({}, BLIND, BLIND), trivial_loss=math.log(128))
    assert verdict is not None and "it is 4.852 if all" in verdict.evidence[1]


def test_a_loss_above_its_value_at_a_point_is_told() -> None:
    downhill = (
        "the loss, 3.8, is above 0, its value if all embeddings are one point: moving all "
        "embeddings together still lowers it"
    )
    verdict = _judge(_rows({}, {}, {"trivial_loss": 0.0}))
    assert verdict is not None and verdict.verdict == "healthy" and verdict.evidence[-1] == downhill
    held = _judge(_rows({}, {}, {"trivial_loss": 0.0}), can_shrink=False)
    assert held is not None and downhill not in held.evidence
    for figures in ({"trivial_loss": 4.0}, {}):
        below = _judge(_rows({}, {}, figures))
        assert below is not None and not any(
            "are one point: moving" in sentence for sentence in below.evidence
        )


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
    assert _name(_rows({}, WORSE, WORSE, wait=0.6)) == "worse than before training"
    assert _name(_rows({}, START, START, wait=0.6)) == "starved by the loader"  # which may be why
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
        ("shrinking", _rows({}, SHRINKING)),
        ("no better than before training", _rows({}, START, START)),
        ("worse than before training", _rows({}, WORSE, WORSE)),
        ("not sure yet", _rows({}, {"effective_rank": 6.0})),
        ("not sure yet", _rows({}, {"negative_distance": 0.03, "positive_distance": 0.01})),
    ]
    for name, rows in alarms:
        verdict = _judge(rows)
        assert verdict is not None and verdict.verdict == name and verdict.evidence and verdict.advice
    few = _judge(_rows({}, {}), images=40)
    assert few is not None and few.verdict == "too few images" and few.evidence and few.advice
    assert {"healthy", few.verdict, *(name for name, _ in alarms)} == set(get_args(Name))


@pytest.mark.parametrize(
    ("change", "name"), [(START, "no better than before training"), (WORSE, "worse than before training")]
)
def test_features_are_compared_with_those_before_training(change: dict[str, float], name: str) -> None:
    """Healthy means better than before; one measurement that says something else is not enough to be sure of it."""
    assert _name(_rows({}, change)) == _name(_rows({}, change, change)) == name
    assert _name(_rows({}, {}, change)) == "not sure yet"
    assert _name(_rows({}, change, {})) == "healthy"
    assert _name(_rows({}, LINE, {**change, **LINE})) == "dimensional collapse"  # which says why


def test_without_a_measurement_before_the_first_step_nothing_is_compared() -> None:
    rows = _rows({}, {}, {})
    for figure in START:
        del rows[0][figure]
    assert _name(rows) == "not sure yet"


def test_a_head_that_cannot_shrink_is_neither_called_shrinking_nor_advised() -> None:
    point = {"negative_distance": 0.01, "positive_distance": 0.01}
    for rows, name in (
        (_rows({}, SHRINKING, SHRINKING), "shrinking"),
        (_rows({}, point), "collapsed to a point"),
    ):
        free, held = _judge(rows), _judge(rows, can_shrink=False)
        assert free.verdict == name and any("head=normed" in advice for advice in free.advice)
        assert not any("head=normed" in advice for advice in held.advice)
        assert held.verdict == ("healthy" if name == "shrinking" else name)


def test_shrinking_is_told_while_it_goes_downhill() -> None:
    assert _name(_rows({}, SHRINKING, SHRINKING)) == "shrinking"
    assert _name(_rows({}, {}, SHRINKING)) == "healthy"  # the next measurement tells
    back = {
        **SHRINKING,
        "trivial_loss": 5.0,
    }  # the loss is below its value at a point: images come apart again
    assert _name(_rows({}, SHRINKING, back)) == "healthy"


UNTOLD = {"strong_rank": 0.1, "feature_rank": 150.0, "text_distance": 1.8, "text_effective_rank": 30.0}
"""Features are as before training, as those of an image encoder that is not trained."""


@pytest.mark.parametrize(
    ("before", "found", "name"),
    [
        (0.004, 0.5, "healthy"),
        (0.004, 0.02, "no better than before training"),  # five of 256 images may be chance
        (0.5, 0.1, "worse than before training"),
    ],
)
def test_captions_decide_on_a_run_that_has_some(before: float, found: float, name: str) -> None:
    def seen(share: float) -> dict[str, float]:
        return {**UNTOLD, "image_to_text": share, "text_to_image": share}

    verdict = _judge(_rows(seen(before), seen(found), seen(found)))
    assert verdict is not None and verdict.verdict == name
    assert "images find their caption among 256" in verdict.evidence[0]
    if name != "healthy":
        assert "with their captions" in verdict.advice[0]
