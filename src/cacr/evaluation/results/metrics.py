"""The four metrics of the transfer data sets."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from cacr.registry import Registry

Metric = Callable[[Tensor, Tensor], float]
"""From scores (n, classes) and labels, (n,) classes or (n, classes) of zeros and ones, to a value in [0, 1]."""

METRICS: Registry[Metric] = Registry("metric")

SEVERAL_CLASSES = frozenset({"map-11"})
"""Metrics of images that may show several classes."""

RECALLS = 11
"""Recalls of the eleven-point average precision: 0, 0.1, ..., 1."""


@METRICS.register("accuracy")
def accuracy_of_scores(scores: Tensor, labels: Tensor) -> float:
    """Share of images whose highest score is that of their class."""
    return _hits(scores, labels).double().mean().item()


@METRICS.register("mean-per-class")
def mean_per_class(scores: Tensor, labels: Tensor) -> float:
    """Accuracy per class, averaged over the classes that occur."""
    hits = _hits(scores, labels).double()
    right = torch.zeros(scores.shape[1], dtype=torch.double, device=scores.device)
    right.index_add_(0, labels, hits)
    count = torch.bincount(labels, minlength=scores.shape[1])
    return (right[count > 0] / count[count > 0]).mean().item()


@METRICS.register("map-11")
def mean_average_precision(scores: Tensor, labels: Tensor) -> float:
    """Eleven-point average precision of Pascal VOC 2007, averaged over the classes that occur.

    For one class: the mean over r in {0, 0.1, ..., 1} of the highest precision at a recall of r or more.
    """
    truth = _indicator(labels, scores.shape[1])
    found = [_eleven_points(scores[:, c], truth[:, c]) for c in range(scores.shape[1]) if truth[:, c].any()]
    return sum(found) / len(found)


@METRICS.register("roc-auc")
def roc_auc(scores: Tensor, labels: Tensor) -> float:
    """Probability that an image of a class scores higher than an image of another class (of class 1 if there are two).

    Equal scores count one half. With more than two classes: the mean over those that occur, each against the rest.
    """
    truth = _indicator(labels, scores.shape[1])
    # With two classes, the difference of their scores decides the ranking.
    if scores.shape[1] == 2:
        return _area(scores[:, 1] - scores[:, 0], truth[:, 1])
    found = [_area(scores[:, c], truth[:, c]) for c in range(scores.shape[1]) if truth[:, c].any()]
    return sum(found) / len(found)


UNEVEN = 1.5
"""A data set is unbalanced if the largest class has this many times more images than the smallest."""


def recall_per_class(scores: Tensor, labels: Tensor) -> Tensor:
    """(classes,) float64: the recall of each class; nan for classes that do not occur."""
    right = torch.zeros(scores.shape[1], dtype=torch.double, device=scores.device)
    right.index_add_(0, labels, _hits(scores, labels).double())
    return right / torch.bincount(labels, minlength=scores.shape[1])


def unbalanced_measures(scores: Tensor, labels: Tensor) -> dict[str, float]:
    """Additional metrics if some classes have many more images than others; otherwise empty.

    The balanced accuracy is the mean recall over classes; the AUC is that of ``roc-auc``.
    """
    if labels.ndim == 2:
        return {}
    count = torch.bincount(labels)
    count = count[count > 0]
    if len(count) < 2 or count.max() <= UNEVEN * count.min():
        return {}
    return {"balanced accuracy": mean_per_class(scores, labels), "AUC": roc_auc(scores, labels)}


def _hits(scores: Tensor, labels: Tensor) -> Tensor:
    """(n,) whether the highest score is right; False if it is not a number."""
    return (scores.argmax(dim=1) == labels) & ~scores.isnan().any(dim=1)


def _indicator(labels: Tensor, classes: int) -> Tensor:
    """(n, classes) of truth values."""
    return (labels if labels.ndim == 2 else one_hot(labels, classes)) > 0


def _eleven_points(scores: Tensor, truth: Tensor) -> float:
    if scores.isnan().any():
        return 0.0
    ranked = truth[scores.argsort(descending=True, stable=True)].double()
    hits = ranked.cumsum(0)
    precision = hits / torch.arange(1, len(ranked) + 1, device=scores.device)
    recall = hits / hits[-1]
    # The highest precision from each position on; recall never falls, so these are the positions of higher recall.
    best = precision.flip(0).cummax(0).values.flip(0)
    levels = torch.arange(RECALLS, device=scores.device, dtype=torch.double) / (RECALLS - 1)
    return best[torch.searchsorted(recall, levels - 1e-12)].mean().item()


def _area(scores: Tensor, truth: Tensor) -> float:
    """Mann-Whitney's statistic over the number of pairs, from mid-ranks."""
    if scores.isnan().any():
        return 0.0
    positives, negatives = int(truth.sum()), int((~truth).sum())
    if not positives or not negatives:
        return 0.5  # only one class
    _, place, count = torch.unique(scores, sorted=True, return_inverse=True, return_counts=True)
    ranks = (count.cumsum(0) - (count - 1) / 2)[place].double()
    above = ranks[truth].sum().item() - positives * (positives + 1) / 2
    return float(above / (positives * negatives))
