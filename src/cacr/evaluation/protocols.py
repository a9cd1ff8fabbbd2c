"""The protocols that work on cached features."""

from typing import Any

from cacr.evaluation.few_labels import over_draws
from cacr.evaluation.knn import knn_scores
from cacr.evaluation.linear import fit_linear
from cacr.evaluation.metrics import METRICS
from cacr.evaluation.options import KnnSettings, LinearSettings
from cacr.evaluation.registry import PROTOCOLS, Score
from cacr.evaluation.task import LabelledFeatures, Task


@PROTOCOLS.register("knn")
def knn(task: Task, settings: KnnSettings) -> Score:
    """Weighted nearest neighbours on cached features."""

    def measure(train: LabelledFeatures, seed: int) -> tuple[float, dict[str, Any]]:
        scores = knn_scores(
            train.values,
            train.labels,
            task.test.values,
            classes=task.data.classes,
            k=settings.k,
            temperature=settings.temperature,
        )
        return METRICS[task.data.metric](scores, task.test.labels), {"k": min(settings.k, len(train))}

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
        value = METRICS[task.data.metric](classifier.logits(task.test.values), task.test.labels)
        validation = {str(lr): share for lr, share in classifier.validation.items()}
        return value, {"lr": classifier.lr, "validation": validation}

    return over_draws(task, settings.labels_per_class, settings.draws, measure)
