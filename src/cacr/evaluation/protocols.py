"""The protocols that work on cached features."""

from typing import Any

from torch import Tensor

from cacr.evaluation.few_labels import over_draws
from cacr.evaluation.knn import knn_predict
from cacr.evaluation.linear import fit_linear
from cacr.evaluation.options import KnnSettings, LinearSettings
from cacr.evaluation.registry import PROTOCOLS, Score
from cacr.evaluation.task import LabelledFeatures, Task


@PROTOCOLS.register("knn")
def knn(task: Task, settings: KnnSettings) -> Score:
    """Weighted nearest neighbours on cached features."""

    def measure(train: LabelledFeatures, seed: int) -> tuple[float, dict[str, Any]]:
        predicted = knn_predict(
            train.values, train.labels, task.test.values, k=settings.k, temperature=settings.temperature
        )
        return accuracy(predicted, task.test.labels), {"k": min(settings.k, len(train))}

    return over_draws(task, settings.labels_per_class, settings.draws, measure)


@PROTOCOLS.register("linear")
def linear(task: Task, settings: LinearSettings) -> Score:
    """A linear classifier on cached features; the learning rate is chosen on validation folds."""

    def measure(train: LabelledFeatures, seed: int) -> tuple[float, dict[str, Any]]:
        classifier = fit_linear(
            train.values,
            train.labels,
            classes=task.data.classes,
            settings=settings,
            seed=seed,
            streamed=train.streamed,
        )
        predicted = classifier.predict(task.test.values)
        validation = {str(lr): share for lr, share in classifier.validation.items()}
        return accuracy(predicted, task.test.labels), {"lr": classifier.lr, "validation": validation}

    return over_draws(task, settings.labels_per_class, settings.draws, measure)


def accuracy(predicted: Tensor, labels: Tensor) -> float:
    """Share of right predictions."""
    return (predicted == labels).double().mean().item()
