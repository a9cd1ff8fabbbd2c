"""Choose a learning rate and a weight decay by their scores on validation images."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from cacr.errors import MissingExtraError

LRS = tuple(float(lr) for lr in np.logspace(-6, -1, 6))
"""Learning rates of the protocol."""

DECAYS = tuple(float(decay) for decay in np.logspace(-6, 6, 97))
"""Weight decays of the protocol, from weak to strong."""

COARSE, FIRST_STEP = 16, 8
"""Every sixteenth weight decay is tried first; then steps of 8, 4, 2 and 1 from the best one."""

QUICK_LRS, QUICK_DECAYS = LRS[3:], DECAYS[:33:16]
"""``quick``: all combinations of 0.001, 0.01, 0.1 and 1e-6, 1e-4, 0.01."""

Search = Literal["elevater", "quick", "optuna"]


class Setting(NamedTuple):
    """A learning rate and a weight decay."""

    lr: float
    weight_decay: float


Measure = Callable[[Sequence[Setting]], Sequence[float]]
"""Scores of several settings on validation images; nan counts as the worst."""


@dataclass(frozen=True)
class Choice:
    """The best setting, and all settings that were tried, in the order of the protocol, with their scores."""

    best: Setting
    score: float
    tried: tuple[tuple[Setting, float], ...]


def choose(search: Search, measure: Measure, *, trials: int, seed: int) -> Choice:
    """Search for the setting with the highest score; the first of equal ones.

    Args:
        search: ``elevater``: at most 90 settings; ``quick``: nine of them; ``optuna``: ``trials`` settings
            drawn by its tree-structured Parzen estimator from the same ranges.
        measure: Trains and returns scores.
        trials: Number of trials of optuna.
        seed: Seed of optuna.
    """
    if search == "elevater":
        return _choose_elevater(measure)
    if search == "quick":
        settings = [Setting(lr, decay) for lr in QUICK_LRS for decay in QUICK_DECAYS]
        return best_of(list(zip(settings, measure(settings), strict=True)))
    return choose_by_optuna(
        lambda setting: measure([setting])[0],
        (LRS[0], LRS[-1]),
        (DECAYS[0], DECAYS[-1]),
        trials=trials,
        seed=seed,
    )


def decay_search() -> Generator[list[int], Sequence[float], None]:
    """The protocol's search for one learning rate: yields numbers of weight decays, receives their scores."""
    numbers = list(range(0, len(DECAYS), COARSE))
    peak, best = -1, -float("inf")
    step = COARSE
    while step > 0:
        scores = yield numbers
        for number, score in zip(numbers, scores, strict=True):
            if score > best:
                peak, best = number, score
        step //= 2
        around = (max(peak - step, 0), min(peak + step, len(DECAYS) - 1))
        numbers = [number for number in around if number != peak]


def _choose_elevater(measure: Measure) -> Choice:
    """The searches of all learning rates run side by side; they do not depend on each other."""
    searches = {lr: decay_search() for lr in LRS}
    asked = {lr: next(search) for lr, search in searches.items()}
    tried: dict[float, list[tuple[Setting, float]]] = {lr: [] for lr in LRS}
    while asked:
        settings = [Setting(lr, DECAYS[number]) for lr, numbers in asked.items() for number in numbers]
        scores = dict(zip(settings, (_comparable(score) for score in measure(settings)), strict=True))
        following = {}
        for lr, numbers in asked.items():
            found = [(Setting(lr, DECAYS[number]), scores[Setting(lr, DECAYS[number])]) for number in numbers]
            tried[lr] += found
            try:
                following[lr] = searches[lr].send([score for _, score in found])
            except StopIteration:
                continue
        asked = following
    return best_of([pair for lr in LRS for pair in tried[lr]])


def choose_by_optuna(
    measure: Callable[[Setting], float],
    lrs: tuple[float, float],
    decays: tuple[float, float],
    *,
    trials: int,
    seed: int,
) -> Choice:
    """Try settings between two learning rates and two weight decays, drawn by optuna's Parzen estimator.

    Raises:
        MissingExtraError: optuna is not installed.
    """
    try:
        import optuna
    except ImportError:
        raise MissingExtraError("search=optuna", "tune") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed % 2**32))
    tried: list[tuple[Setting, float]] = []
    for _ in range(trials):
        trial = study.ask()
        lr = trial.suggest_float("lr", *lrs, log=True)
        setting = Setting(lr, trial.suggest_float("weight_decay", *decays, log=True))
        score = _comparable(measure(setting))
        study.tell(trial, score)
        tried.append((setting, score))
    return best_of(tried)


def best_of(tried: Sequence[tuple[Setting, float]]) -> Choice:
    """The setting with the highest score; the first of equal ones."""
    scores = [_comparable(score) for _, score in tried]
    first = scores.index(max(scores))
    return Choice(tried[first][0], scores[first], tuple(tried))


def _comparable(score: float) -> float:
    """The score, or 0 if it is not a number."""
    return score if score == score else 0.0
