"""The search for a learning rate and a weight decay."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from cacr.evaluation.engine.tuning import DECAYS, LRS, Setting, choose

Landscape = Callable[[float, float], float]


def _literal(landscape: Landscape) -> tuple[list[tuple[float, float]], tuple[float, float]]:
    """The documented search, one training after the other."""
    lrs, decays = np.logspace(-6, -1, 6), np.logspace(-6, 6, 97)
    tried, best, winner = [], -math.inf, (0.0, 0.0)
    for lr in lrs:
        peak, top = 0, -math.inf
        for index in (0, 16, 32, 48, 64, 80, 96):
            tried.append((lr, decays[index]))
            if landscape(lr, decays[index]) > top:
                peak, top = index, landscape(lr, decays[index])
        for span in (8, 4, 2, 1):
            left, right = max(peak - span, 0), min(peak + span, 96)
            centre = peak
            for index in (left, right):
                if index == centre:
                    continue
                tried.append((lr, decays[index]))
                if landscape(lr, decays[index]) > top:
                    peak, top = index, landscape(lr, decays[index])
        if top > best:
            best, winner = top, (lr, decays[peak])
    return tried, winner


LANDSCAPES: dict[str, Landscape] = {
    "inside": lambda lr, wd: -((math.log10(lr) + 2) ** 2) - (math.log10(wd) + 1.37) ** 2,
    "weak": lambda lr, wd: -math.log10(wd) + lr,
    "strong": lambda lr, wd: math.log10(wd) - lr,
    "flat": lambda lr, wd: 0.25,
    "steps": lambda lr, wd: round(math.sin(5 * math.log10(wd)) + math.log10(lr)),
}


@pytest.mark.parametrize("name", LANDSCAPES)
def test_the_search_tries_what_the_protocol_says_in_its_order(name: str) -> None:
    landscape = LANDSCAPES[name]
    asked: list[Setting] = []

    def measure(settings: Sequence[Setting]) -> list[float]:
        asked.extend(settings)
        return [landscape(*setting) for setting in settings]

    choice = choose("elevater", measure, trials=1, seed=0)
    tried, winner = _literal(landscape)
    np.testing.assert_allclose([setting for setting, _ in choice.tried], tried, rtol=1e-12)
    assert tuple(choice.best) == pytest.approx(winner)
    assert choice.score == landscape(*choice.best)
    assert sorted(asked) == sorted(setting for setting, _ in choice.tried)
    assert len(asked) <= 90 and len(set(asked)) == len(asked)


def test_a_training_that_ends_in_nothing_loses() -> None:
    choice = choose(
        "elevater", lambda tried: [math.nan if lr < 0.05 else 0.1 for lr, _ in tried], trials=1, seed=0
    )
    assert choice.best == Setting(LRS[-1], DECAYS[0])


def test_quick_tries_nine_settings() -> None:
    choice = choose("quick", lambda tried: [-abs(lr - 0.01) - wd for lr, wd in tried], trials=1, seed=0)
    expected = [(lr, wd) for lr in (1e-3, 1e-2, 1e-1) for wd in (1e-6, 1e-4, 1e-2)]
    np.testing.assert_allclose([setting for setting, _ in choice.tried], expected)
    assert tuple(choice.best) == pytest.approx((1e-2, 1e-6))


def test_optuna_stays_in_the_ranges_and_is_reproducible() -> None:
    pytest.importorskip("optuna")

    def measure(tried: Sequence[Setting]) -> list[float]:
        return [-abs(math.log10(lr) + 3) for lr, _ in tried]

    first, again = (choose("optuna", measure, trials=12, seed=3) for _ in range(2))
    assert first == again and len(first.tried) == 12
    assert all(1e-6 <= lr <= 0.1 and 1e-6 <= wd <= 1e6 for (lr, wd), _ in first.tried)
    assert first.score == max(score for _, score in first.tried)
