import math

import pytest

from cacr.training.optimization.schedules import build_schedule, warm_cosine


def test_cosine_starts_at_the_peak_and_ends_near_zero() -> None:
    schedule = build_schedule("cosine", total=100, warmup=0)
    assert schedule(0) == 1
    assert schedule(50) == pytest.approx(0.5)
    assert schedule(99) == pytest.approx((1 + math.cos(0.99 * math.pi)) / 2)
    assert schedule(100) == pytest.approx(0)


def test_multistep_of_the_paper_drops_at_155_170_185_of_200_epochs() -> None:
    schedule = build_schedule("multistep", total=200, warmup=0, milestones=(0.775, 0.85, 0.925), gamma=0.1)
    factors = [schedule(step) for step in range(200)]
    drops = [step for step in range(1, 200) if factors[step] != factors[step - 1]]
    assert drops == [155, 170, 185]
    assert factors[-1] == pytest.approx(1e-3)


def test_warmup_rises_linearly_to_the_schedule() -> None:
    schedule = build_schedule("constant", total=100, warmup=4)
    assert [schedule(step) for step in range(6)] == [0.25, 0.5, 0.75, 1, 1, 1]


def test_cosine_of_moco_v2_changes_between_epochs() -> None:
    """Its code has cos(pi epoch / epochs) for all of an epoch."""
    schedule = build_schedule("cosine_epochs", total=30, warmup=0, per_epoch=6)
    expected = [0.5 * (1 + math.cos(math.pi * (step // 6) / 5)) for step in range(30)]
    assert [schedule(step) for step in range(30)] == pytest.approx(expected)


def test_cosine_of_moco_v3_begins_after_the_warmup() -> None:
    schedule = build_schedule("cosine_after_warmup", total=50, warmup=10)
    assert [schedule(step) for step in range(10)] == pytest.approx([(step + 1) / 10 for step in range(10)])
    after = [0.5 * (1 + math.cos(math.pi * (step - 10) / 40)) for step in range(10, 51)]
    assert [schedule(step) for step in range(10, 51)] == pytest.approx(after)


def test_the_rate_rises_from_zero_and_falls() -> None:
    rate = warm_cosine(10, 0.2)
    assert [rate(step) for step in (0, 1, 2, 6)] == pytest.approx([0, 0.5, 1, 0.5])
    assert rate(10) == pytest.approx(0)
    assert warm_cosine(10, 0.0)(0) == 1
