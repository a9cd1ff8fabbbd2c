"""Scores with all labels, or over several draws of a few labels per class."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isnan
from statistics import mean, stdev
from typing import Any

import torch
from torch import Tensor

from cacr.data.source import Indices
from cacr.evaluation.data.splits import Labels, draw_per_class
from cacr.evaluation.data.task import LabelledFeatures, Task
from cacr.evaluation.registry import Score
from cacr.evaluation.results.metrics import METRICS, recall_per_class, unbalanced_measures
from cacr.randomness import mixed_seed

_Found = tuple[float, dict[str, Any]]
"""A score and details; in these, ``also`` has further metrics, and ``recall`` has that of each class by name."""


def judge(task: Task, scores: Tensor, **details: Any) -> _Found:
    """Score predictions (n, classes) for the test images; for unbalanced classes also the recall of each class."""
    labels = task.test.labels
    value = METRICS[task.data.metric](scores, labels)
    if also := unbalanced_measures(scores, labels):
        names = task.data.test.class_names or [str(number) for number in range(scores.shape[1])]
        recall = recall_per_class(scores, labels).tolist()
        found = {name: share for name, share in zip(names, recall, strict=True) if not isnan(share)}
        details |= {"also": also, "recall": found}
    return value, details


def over_draws(
    task: Task, labels_per_class: int | None, draws: int, measure: Callable[[LabelledFeatures, int], _Found]
) -> Score:
    """The score with all labels, or mean and standard deviation over draws of ``labels_per_class`` labels.

    Args:
        task: The encoder and the data.
        labels_per_class: Labels per class; None for all.
        draws: Number of draws.
        measure: Function of training features and a seed that returns a score and details.
    """
    if labels_per_class is None:
        value, details = measure(task.train, task.seed)
        return Score(value, None, details, task.data.metric, details.pop("also", {}))
    found = []
    labels = task.train.labels.cpu().numpy()
    names = task.data.train.class_names
    for rows, seed in drawn_labels(labels, labels_per_class, draws, task.seed, names):
        chosen = torch.from_numpy(rows)
        found.append(measure(LabelledFeatures(task.train.values[chosen], task.train.labels[chosen]), seed))
        if task.progress is not None:
            task.progress(len(found), draws)
    return score_of_draws(found, task.data.metric)


def drawn_labels(
    labels: Labels, labels_per_class: int, draws: int, seed: int, class_names: Sequence[str] | None = None
) -> Iterator[tuple[Indices, int]]:
    """The images of each draw, and a seed for the training on them.

    The draws depend only on the seed and the labels, so every encoder gets the same ones.
    """
    for draw in range(draws):
        own = mixed_seed("labels", seed, draw)
        yield draw_per_class(labels, labels_per_class, own, class_names), own


def score_of_draws(found: Sequence[_Found], metric: str, notes: tuple[str, ...] = ()) -> Score:
    """Mean and standard deviation (n - 1; None for one draw) over draws, and the details of all of them by name."""
    scores = [value for value, _ in found]
    together: dict[str, Any] = {name: [details[name] for _, details in found] for name in found[0][1]}
    also = _means(together.pop("also", []))
    if "recall" in together:
        together["recall"] = _means(together["recall"])
    spread = stdev(scores) if len(scores) > 1 else None
    return Score(mean(scores), spread, {"scores": scores, **together}, metric, also, notes)


def _means(figures: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean over draws of each number by name."""
    return {name: mean(each[name] for each in figures) for name in (figures[0] if figures else {})}
