"""Settings that accuracy is plotted against, and which runs can be compared: those that differ in nothing else."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isclose

from cacr.runs.run import Run

Facts = tuple[tuple[str, object], ...]
"""Names and values that the runs of one line have in common."""

_LENGTH = ("max_steps", "warmup_epochs")
"""Settings that follow from another setting if runs see equally many views."""


@dataclass(frozen=True)
class Varied:
    """A setting on the x axis.

    Attributes:
        axis: name on the axis.
        value: value of a run.
        settings: its names among the settings, including those that depend on it.
        options: its names among the objective's options.
    """

    axis: str
    value: Callable[[Run], float]
    settings: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


VARIED = {
    "k": Varied("K, positives per query", lambda run: run.settings.views - 1, ("views",)),
    "batch_size": Varied(
        "batch size", lambda run: run.settings.batch_size, ("batch_size", "lr", "warmup_epochs")
    ),
    "t_pos": Varied("t⁺", lambda run: run.t_pos, options=("t_pos",)),
    "t_neg": Varied("t⁻", lambda run: run.t_neg, options=("t_neg", "temperature")),
}
"""Settings that accuracy can be plotted against, by name."""


def comparable(runs: Sequence[Run], varied: Varied) -> dict[Facts, list[Run]]:
    """The runs of each line: they have two values or more, and are equal in everything else.

    Either their lengths are equal, or they see equally many views, so that ``max_steps`` follows from the varied
    setting. Runs that fit both belong to the line with more values.
    """
    found = _equal_settings(runs, varied) | _equal_views(runs, varied)
    lines: dict[Facts, list[Run]] = {}
    while found:
        key = max(found, key=lambda each: len({varied.value(run) for run in found[each]}))
        own = found.pop(key)
        if len({varied.value(run) for run in own}) > 1:
            lines[key] = own
            found = {other: [run for run in rest if run not in own] for other, rest in found.items()}
    return lines


def _equal_settings(runs: Sequence[Run], varied: Varied) -> dict[Facts, list[Run]]:
    """Groups of runs that are equal in everything else."""
    found: dict[Facts, list[Run]] = {}
    for run in runs:
        found.setdefault(_others(run, varied), []).append(run)
    return found


def _equal_views(runs: Sequence[Run], varied: Varied) -> dict[Facts, list[Run]]:
    """Groups of runs that are equal in everything else except their length, and see equally many views."""
    found: list[list[Run]] = []
    # A run of small steps comes nearest to the number of views that all were meant to see.
    for run in sorted((run for run in runs if run.settings.max_steps), key=_views_per_step):
        others = _others(run, varied, *_LENGTH)
        for own in found:
            if _others(own[0], varied, *_LENGTH) == others and _as_long(own[0], run, varied):
                own.append(run)
                break
        else:
            found.append([run])
    return {
        (("views_seen", _views_seen(own[0])), *_others(own[0], varied, "max_steps")): own for own in found
    }


def _as_long(run: Run, other: Run, varied: Varied) -> bool:
    """Whether two runs see equally many views, up to half a step of each, and warm up for an equal share of them."""
    half_steps = (_views_per_step(run) + _views_per_step(other)) / 2
    if abs(_views_seen(run) - _views_seen(other)) >= half_steps:
        return False
    if "warmup_epochs" in varied.settings:
        return True
    shares = [each.settings.warmup_epochs / (each.settings.max_steps or 1) for each in (run, other)]
    return isclose(*shares, rel_tol=0.02)  # epochs are stored with four digits


def _views_per_step(run: Run) -> int:
    return run.settings.accumulate * run.settings.batch_size * run.settings.views


def _views_seen(run: Run) -> int:
    return _views_per_step(run) * (run.settings.max_steps or 0)


def _others(run: Run, varied: Varied, *more: str) -> Facts:
    """What must be equal in the runs of one line: all settings of the training, except the varied one and ``more``."""
    left_out = {*varied.settings, *more}
    facts = {part: value for part, value in run.learned.items() if part not in left_out}
    options = run.learned["objective_options"].items()
    facts["objective_options"] = {part: value for part, value in options if part not in varied.options}
    return tuple(
        (part, json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value)
        for part, value in facts.items()
    )
