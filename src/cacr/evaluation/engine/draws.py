"""Scores with all labels, or over several draws of a few labels of each class."""

from collections.abc import Callable
from statistics import mean, stdev
from typing import Any

import torch

from cacr.evaluation.data.splits import draw_per_class
from cacr.evaluation.data.task import LabelledFeatures, Task
from cacr.evaluation.registry import Score
from cacr.randomness import mixed_seed

Measure = Callable[[LabelledFeatures, int], tuple[float, dict[str, Any]]]
"""From training features and a seed to a score and details."""


def over_draws(task: Task, labels_per_class: int | None, draws: int, measure: Measure) -> Score:
    """The score with all labels, or mean and standard deviation over draws of ``labels_per_class`` labels.

    The draws depend on the seed and the labels only, so every encoder gets the same ones.
    """
    if labels_per_class is None:
        value, details = measure(task.train, task.seed)
        return Score(value, None, details, task.data.metric)
    scores, found = [], []
    for draw in range(draws):
        seed = mixed_seed("labels", task.seed, draw)
        chosen = torch.from_numpy(draw_per_class(task.train.labels.cpu().numpy(), labels_per_class, seed))
        value, details = measure(LabelledFeatures(task.train.values[chosen], task.train.labels[chosen]), seed)
        scores.append(value)
        found.append(details)
        if task.progress is not None:
            task.progress(draw + 1, draws)
    together = {name: [details[name] for details in found] for name in found[0]}
    spread = stdev(scores) if draws > 1 else None
    return Score(mean(scores), spread, {"scores": scores, **together}, task.data.metric)
