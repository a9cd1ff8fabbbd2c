"""Which results of several runs are about the same thing, and what to call it."""

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
    """Scores that may be compared.

    Attributes:
        title: What was measured, and what sets it apart from other measurements.
        scores: Group -> seed of the training -> score.
        resolution: The smallest step of a score.
    """

    title: str
    scores: dict[str, dict[int, float]]
    resolution: float


@dataclass(frozen=True)
class _Found:
    """One result's measure of one run."""

    group: str
    seed: int
    result: Result
    measure: str
    value: float


def measurements(results: Results) -> list[Measurement]:
    """Results of encoders that were measured alike: the same protocol, settings, data and number of test images.

    Where every run was evaluated with the same seed, or with the same few, each of these is a measurement. Where
    the runs share no seed of the evaluation, as when each has that of its own training, they are one measurement
    all the same; a run with several then counts with their mean.
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
    """Equal for measurements that may be compared, whatever their seed."""
    result = found.result
    split = None if result.held_out else result.split  # whose words name the seed
    how = [result.protocol, found.measure, result.data, result.test_data, split, result.labels_per_class]
    return json.dumps([*how, result.settings, result.counts.get("test_images")], sort_keys=True)


def _by_common_seed(found: Sequence[_Found]) -> list[list[_Found]]:
    """One part for each seed of the evaluation that all runs have, or all together if there is none."""
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
    """Short names of measurements; where two would be alike, with what they differ in."""
    short = []
    for one in firsts:
        few = "" if one.result.labels_per_class is None else f", {one.result.labels_per_class} labels a class"
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
    """What may set two measurements of one name apart."""
    result = one.result
    facts = {"data": result.data, "test_data": result.test_data, "split": result.split, "seed": result.seed}
    return {**result.settings, **facts, "test_images": result.counts.get("test_images")}
