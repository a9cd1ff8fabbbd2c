"""Weighted nearest neighbours on cached features."""

from dataclasses import replace
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import normalize

from cacr.encoders import ReaderKind
from cacr.evaluation.data.task import LabelledFeatures, Task
from cacr.evaluation.engine.draws import judge, over_draws
from cacr.evaluation.registry import PROTOCOLS, ProtocolSettings, Score
from cacr.features.neighbours import nearest_keys, vote
from cacr.features.reader import components_field, described, reader_field

QUERIES = 1024
"""Test features per batch in the search for neighbours."""


class KnnSettings(ProtocolSettings):
    """Weighted nearest neighbours on cached features."""

    quick: ClassVar[bool] = True

    k: int = Field(20, ge=1, le=10**9, description="number of neighbours that vote")
    temperature: float = Field(0.07, gt=0, description="a neighbour votes with exp(cosine / temperature)")
    labels_per_class: int | None = Field(None, ge=1, description="use only this number of labels per class")
    draws: int = Field(5, ge=1, le=1000, description="number of random draws of labels, for mean and spread")
    reader: ReaderKind = reader_field()
    reader_components: int = components_field()


@PROTOCOLS.register("knn")
def knn(task: Task, settings: KnnSettings) -> Score:
    """Weighted nearest neighbours on cached features."""
    reader = task.reader(settings.reader, settings.reader_components)
    test = task.read(task.test, reader)

    def measure(train: LabelledFeatures, seed: int) -> tuple[float, dict[str, Any]]:
        scores = knn_scores(
            task.read(train, reader),
            train.labels,
            test,
            classes=task.data.classes,
            k=settings.k,
            temperature=settings.temperature,
        )
        return judge(task, scores, k=min(settings.k, len(train)))

    score = over_draws(task, settings.labels_per_class, settings.draws, measure)
    return replace(score, details=score.details | described(reader))


def knn_predict(train: Tensor, labels: Tensor, test: Tensor, *, k: int, temperature: float) -> Tensor:
    """The class (m,) with the most votes of the nearest neighbours; arguments as in :func:`knn_scores`."""
    classes = int(labels.max()) + 1
    return knn_scores(train, labels, test, classes=classes, k=k, temperature=temperature).argmax(dim=1)


def knn_scores(
    train: Tensor, labels: Tensor, test: Tensor, *, classes: int, k: int, temperature: float
) -> Tensor:
    """The share of the votes of the nearest neighbours for each class.

    With s_j the cosine of a test feature and its neighbour j, one of the k nearest training features, class c
    gets sum exp(s_j / temperature) over its neighbours of class c, divided by the sum over all of them.

    Args:
        train: (n, d) training features.
        labels: (n,) their classes.
        test: (m, d) test features.
        classes: Number of classes.
        k: Number of neighbours that vote; all if there are fewer.
        temperature: Temperature of the votes.

    Returns:
        (m, classes).
    """
    shares = []
    for block in torch.split(test, QUERIES):
        queries = normalize(block, dim=1)
        near, neighbours = nearest_keys(queries, train, min(k, len(train)), unit=False)
        shares.append(vote(near, labels[neighbours], classes=classes, temperature=temperature))
    return torch.cat(shares)
