"""The ELEVATER protocol with a few labels per class, drawn several times."""

import numpy as np
from pydantic import Field

from cacr.evaluation.data.shots import draw_shots
from cacr.evaluation.data.task import Task
from cacr.evaluation.engine.draws import score_of_draws
from cacr.evaluation.engine.learner import LearnerKind
from cacr.evaluation.engine.linear_learner import LinearLearner
from cacr.evaluation.protocols.transfer import ElevaterSettings, Ticker, notes_on, seen_by, tune
from cacr.evaluation.registry import PROTOCOLS, Score


class FewShotSettings(ElevaterSettings):
    """The ELEVATER protocol with a few labels per class."""

    labels_per_class: int = Field(5, ge=2, description="number of labels per class")
    draws: int = Field(3, ge=1, le=1000, description="number of random draws of labels, for mean and spread")


@PROTOCOLS.register("fewshot")
def fewshot(task: Task, settings: FewShotSettings) -> Score:
    """ELEVATER: a linear classifier, five labels per class, three draws, with a search for settings."""
    return few_labels(task, settings, LinearLearner)


def few_labels(task: Task, settings: FewShotSettings, learner: LearnerKind) -> Score:
    """Mean and standard deviation over draws with the seeds ``seed``, ``seed + 1`` and so on."""
    task = seen_by(task, settings)
    data = task.data
    count, names = settings.labels_per_class, data.train.class_names
    seeds = [task.seed + number for number in range(settings.draws)]
    draws = [draw_shots(data.train_labels, data.classes, count, seed, names) for seed in seeds]
    tick = Ticker(task, settings, len(draws), learner.side_by_side)
    able = learner(task, np.unique(np.concatenate(draws)), tick)
    found = [tune(task, settings, able, draw, draw, seed) for draw, seed in zip(draws, seeds, strict=True)]
    return score_of_draws([(details["last"], details) for details in found], data.metric, notes_on(settings))
