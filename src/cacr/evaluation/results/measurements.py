"""Find results of several runs that measure the same thing, and name them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from cacr.runs.result import Result

Results = Mapping[str, Mapping[int, Sequence[Result]]]
"""Results of runs by the name of their group and the seed of their training."""


@dataclass(frozen=True)
class Measurement:
    """Scores that can be compared.

    Attributes:
        title: What was measured, and what distinguishes it from other measurements.
        scores: Group -> seed of the training -> score.
        resolution: The smallest step of a score.
    """

    title: str
    scores: dict[str, dict[int, float]]
    resolution: float


@dataclass(frozen=True)
class _Found:
    """One metric of one result of one run."""

    group: str
    seed: int
    result: Result
    measure: str
    value: float


def measurements(results: Results) -> list[Measurement]:
    """Results of encoders that were measured in the same way: same protocol, settings, data and number of test images.

    If all runs were evaluated with the same seed or seeds, each seed is a measurement. If the runs have no evaluation
    seed in common, for example because each uses its training seed, they are still one measurement; a run with
    several seeds then counts with their mean.
    """
    alike: dict[str, list[_Found]] = {}
    for group, runs in results.items():
        for seed, found in runs.items():
            for result in found:
                if result.subject == "encoder":
                    for measure, value in {result.metric: result.score, **result.also}.items():
                        one = _Found(group, seed, result, measure, value)
                        alike.setdefault(_key(one), []).append(one)
    parts = [part for found in alike.values() for part in _by_common_seed(found)]
    return [
        Measurement(
            title, _scores(part, list(results)), 1 / max(1, part[0].result.counts.get("test_images", 1))
        )
        for title, part in zip(_titles([part[0] for part in parts]), parts, strict=True)
    ]


def _key(found: _Found) -> str:
    """A key that is equal for measurements that can be compared, for any seed."""
    result = found.result
    split = None if result.held_out else result.split  # its text contains the seed
    how = [result.protocol, found.measure, result.data, result.test_data, split, result.labels_per_class]
    return json.dumps([*how, result.settings, result.counts.get("test_images")], sort_keys=True)


def _by_common_seed(found: Sequence[_Found]) -> list[list[_Found]]:
    """One part for each evaluation seed that all runs have, or all together if there is none."""
    seeds: dict[tuple[str, int], set[int]] = {}
    for one in found:
        seeds.setdefault((one.group, one.seed), set()).add(one.result.seed)
    common = sorted(set.intersection(*seeds.values()))
    return [[one for one in found if one.result.seed == seed] for seed in common] or [list(found)]


def _scores(found: Sequence[_Found], groups: Sequence[str]) -> dict[str, dict[int, float]]:
    values: dict[str, dict[int, list[float]]] = {group: {} for group in groups}
    for one in found:
        values[one.group].setdefault(one.seed, []).append(one.value)
    return {group: {seed: fmean(v) for seed, v in by_seed.items()} for group, by_seed in values.items()}


def _titles(firsts: Sequence[_Found]) -> list[str]:
    """Short names of measurements; if two are equal, with the differences added."""
    short = []
    for one in firsts:
        few = (
            "" if one.result.labels_per_class is None else f", {one.result.labels_per_class} labels per class"
        )
        short.append(f"{one.result.protocol} {one.measure}, {Path(one.result.test_data).name}{few}")
    titles = []
    for one, text in zip(firsts, short, strict=True):
        same = [_facts(other) for other, name in zip(firsts, short, strict=True) if name == text]
        own = _facts(one)
        differing = [name for name in own if any(other.get(name) != own[name] for other in same)]
        shown = " ".join(f"{name}={own[name]}" for name in differing)
        titles.append(f"{text} ({shown})" if shown else text)
    return titles


def _facts(one: _Found) -> dict[str, Any]:
    """Facts that can distinguish two measurements with the same name."""
    result = one.result
    facts = {"data": result.data, "test_data": result.test_data, "split": result.split, "seed": result.seed}
    return {**result.settings, **facts, "test_images": result.counts.get("test_images")}
