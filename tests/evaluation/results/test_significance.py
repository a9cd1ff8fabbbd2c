"""Tests of differences against scipy, and Holm's correction against its definition."""

import numpy as np
import pytest
from scipy import stats

from cacr.evaluation.results.significance import compare_scores, holm


@pytest.mark.parametrize("seeds", [2, 3, 8])
def test_a_paired_test_is_that_of_scipy(seeds: int) -> None:
    rng = np.random.default_rng(seeds)
    first, second = rng.normal(0.7, 0.02, seeds), rng.normal(0.72, 0.02, seeds)
    found = compare_scores(dict(enumerate(first)), dict(reversed(list(enumerate(second)))), resolution=1e-4)
    expected = stats.ttest_rel(second, first)
    interval = expected.confidence_interval(0.95)
    assert found.mean == pytest.approx((second - first).mean(), rel=1e-12)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-9)
    assert (found.test, found.seeds) == ("paired t", seeds)


def test_other_seeds_are_compared_by_welch() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(0.7, 0.01, 4), rng.normal(0.75, 0.05, 3)
    found = compare_scores(dict(enumerate(first)), {10 + n: s for n, s in enumerate(second)})
    expected = stats.ttest_ind(second, first, equal_var=False)
    interval = expected.confidence_interval(0.95)
    assert found is not None and (found.test, found.seeds) == ("Welch t", 3)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-9)


def test_only_shared_seeds_are_paired() -> None:
    first, second = {0: 0.5, 1: 0.6, 2: 0.9}, {1: 0.65, 2: 0.97, 7: 0.1}
    found = compare_scores(first, second)
    assert found is not None and found.seeds == 2
    assert found.p == pytest.approx(stats.ttest_rel([0.65, 0.97], [0.6, 0.9]).pvalue, rel=1e-9)


def test_too_few_seeds_say_nothing() -> None:
    assert compare_scores({0: 0.5}, {0: 0.9}) is None
    assert compare_scores({0: 0.5, 1: 0.5}, {2: 0.9}) is None
    assert compare_scores({}, {0: 0.5, 1: 0.6}) is None


def test_equal_differences_on_few_images_are_no_proof() -> None:
    """Two seeds, ten images, one more right both times: a plain t-test would divide by zero and be certain."""
    coarse = compare_scores({0: 0.5, 1: 0.6}, {0: 0.6, 1: 0.7}, resolution=0.1)
    assert coarse is not None and coarse.p > 0.15
    fine = compare_scores({0: 0.5, 1: 0.6}, {0: 0.6, 1: 0.7}, resolution=1e-4)
    assert fine is not None and fine.p < 0.001
    unknown = compare_scores({0: 0.5, 1: 0.5}, {0: 0.6, 1: 0.6})
    assert unknown is not None and unknown.p == 1


def test_false_alarms_are_as_rare_as_promised() -> None:
    """Among 2,000 comparisons of equals, of three seeds each, about 5 % have p <= 0.05."""
    rng = np.random.default_rng(1)
    alarms = 0
    for _ in range(2000):
        first, second = rng.normal(0.7, 0.01, (2, 3))
        found = compare_scores(dict(enumerate(first)), dict(enumerate(second)), resolution=1e-4)
        alarms += found is not None and found.p <= 0.05
    assert 65 <= alarms <= 135  # 100 expected; 3.6 standard deviations


def test_holm_is_its_definition() -> None:
    values = [0.01, 0.04, 0.03, 0.005, 0.5]
    ranked = sorted(values)
    expected = {
        p: max(min(1.0, (len(values) - j) * ranked[j]) for j in range(i + 1)) for i, p in enumerate(ranked)
    }
    assert holm(values) == pytest.approx([expected[p] for p in values])
    assert holm([]) == []
