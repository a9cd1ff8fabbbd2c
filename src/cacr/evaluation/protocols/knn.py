"""Weighted nearest neighbours on cached features."""

from typing import Any

from cacr.evaluation.data.task import LabelledFeatures, Task
from cacr.evaluation.engine.draws import over_draws
from cacr.evaluation.options import KnnSettings
from cacr.evaluation.registry import PROTOCOLS, Score
from cacr.evaluation.results.metrics import METRICS
from cacr.features.neighbours import knn_scores


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
