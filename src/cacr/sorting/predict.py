"""``cacr predict``: predict labels for all images from a few labelled ones, with a confidence per image."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from statistics import mean, stdev

import numpy as np
import torch
from torch import Tensor

from cacr.data.prepare import Progress
from cacr.data.source import Indices
from cacr.errors import UserError
from cacr.evaluation.data.splits import folds
from cacr.evaluation.protocols.knn import knn_scores
from cacr.evaluation.protocols.linear import LinearSettings, fit_linear
from cacr.features.collection import Collection
from cacr.files import printable
from cacr.registry import nearest

FOLDS = 5
"""Number of folds of the cross-validation."""

NEIGHBOURS = (1, 5, 20)
"""Numbers of neighbours to try."""

VOTE_TEMPERATURE = 0.07
"""Temperature of the neighbours' votes, as in the kNN protocol."""

NO_VOTE = 1e-3
"""Share of the votes that every class gets: a class without neighbours is unlikely, not impossible."""

TEMPERATURES = tuple(2 ** (step / 4) for step in range(-16, 17))
"""Temperatures for calibration, from 1/16 to 16: scores are divided by the one with the lowest cross-entropy."""

Scores = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Function of training rows, their labels, and rows to predict: log scores (m, classes)."""


@dataclass(frozen=True)
class Judged:
    """Accuracy of a classifier on labels that it was not trained on.

    Attributes:
        accuracy: Mean over the folds.
        spread: Standard deviation over the folds.
    """

    accuracy: float
    spread: float


@dataclass(frozen=True)
class Guesses:
    """A prediction per image, the least certain first.

    Attributes:
        images: (m,) numbers of the images.
        classes: (m, 2) the most likely class and the next one; the same twice if there is only one class.
        confidence: (m, 2) their probabilities.
        class_names: The name of each class.
        by: The classifier: ``knn-5``, ``linear``.
        judged: Its accuracy; None if it could not be measured.
        others: Accuracy of the classifiers that were not chosen, by name.
        everything: Whether labelled images were predicted too.
    """

    images: Indices
    classes: Indices
    confidence: Tensor
    class_names: tuple[str, ...]
    by: str
    judged: Judged | None = None
    others: Mapping[str, Judged] = field(default_factory=dict)
    everything: bool = False

    @classmethod
    def of(cls, probabilities: Tensor, images: Indices, class_names: tuple[str, ...], by: str) -> "Guesses":
        """Predictions from the probabilities (m, classes) of images."""
        value, which = probabilities.topk(min(2, len(class_names)), dim=1)
        if len(class_names) == 1:
            value, which = value.repeat(1, 2), which.repeat(1, 2)
        order = torch.argsort(value[:, 0], stable=True)
        return cls(images[order.numpy()], which[order].numpy(), value[order], class_names, by)


def predict_labels(
    found: Collection,
    *,
    by: str = "auto",
    everything: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Guesses:
    """Predict the labels of all images of a collection that have none.

    Nearest neighbours and a linear classifier are cross-validated on the labels, and the better one is used. Its
    scores are divided by the temperature that fits the cross-validated labels best, so that about 80 % of the
    predictions with confidence 0.8 are right.

    Args:
        found: The images, some with labels.
        by: ``auto``, ``knn-1``, ``knn-5``, ``knn-20`` or ``linear``.
        everything: Predict labelled images too: a prediction that differs from the label may reveal a wrong label.
        seed: Seed of the folds and of the linear classifier.
        progress: Called with the number of classifiers tried and the total.

    Raises:
        UserError: there are no labels, or nothing to predict.
    """
    where, labels, names = found.labelled()
    ways = _ways(found, len(names), seed)
    if by != "auto" and by not in ways:
        raise UserError(f"there is no classifier {by!r}; {nearest(by, ['auto', *ways])}")
    if len(names) < 2:
        raise UserError(f"all labels are {printable(names[0])!r}: give labels of at least two classes")
    indices = np.arange(len(found)) if everything else np.setdiff1d(np.arange(len(found)), where)
    if not len(indices):
        raise UserError(
            "every image has a label already; --all predicts labelled images too, to find wrong labels"
        )
    chosen = ways if by == "auto" else {by: ways[by]}
    fold = _folds(labels, seed)
    rows, truth = torch.from_numpy(where), torch.from_numpy(labels)
    outside: dict[str, Tensor] = {}
    for name, way in chosen.items():
        outside[name] = _out_of_fold(way, rows, truth, fold, len(names))
        if progress is not None:
            progress(len(outside), len(chosen))
    judged = {name: _judge(scores, truth, fold) for name, scores in outside.items()}
    # With few labels, many classifiers are equally accurate: then the one with the lowest cross-entropy is used.
    best = max(
        chosen,
        key=lambda name: (round(judged[name].accuracy, 9), -_best_temperature(outside[name], truth)[1]),
    )
    temperature, _ = _best_temperature(outside[best], truth)
    scores = chosen[best](rows, truth, torch.from_numpy(indices))
    if everything:  # a labelled image must not be predicted by a classifier trained on its label
        scores[rows] = outside[best]
    probabilities = (scores.double() / temperature).softmax(dim=1)
    others = {name: value for name, value in judged.items() if name != best}
    guesses = Guesses.of(probabilities, indices, names, best)
    return replace(guesses, judged=judged[best], others=others, everything=everything)


def _ways(found: Collection, classes: int, seed: int) -> dict[str, Scores]:
    """Every classifier by name."""

    def neighbours(k: int) -> Scores:
        def scores(rows: Tensor, labels: Tensor, judged: Tensor) -> Tensor:
            x = found.vectors
            votes = knn_scores(x[rows], labels, x[judged], classes=classes, k=k, temperature=VOTE_TEMPERATURE)
            return ((1 - NO_VOTE) * votes + NO_VOTE / classes).log()

        return scores

    def linear(rows: Tensor, labels: Tensor, judged: Tensor) -> Tensor:
        x = found.features
        fitted = fit_linear(x[rows], labels, classes=classes, settings=LinearSettings(), seed=seed)
        return fitted.logits(x[judged]).log_softmax(dim=1)

    return {f"knn-{k}": neighbours(k) for k in NEIGHBOURS} | {"linear": linear}


def _folds(labels: Indices, seed: int) -> Tensor:
    """(n,) the fold of each label.

    Raises:
        UserError: no class has two labels, so nothing can be cross-validated.
    """
    if np.bincount(labels).max() < 2:
        raise UserError(
            "no class has more than one label, so accuracy cannot be measured: label at least two images of one class"
        )
    return torch.from_numpy(folds(labels, min(FOLDS, len(labels)), seed))


def _out_of_fold(way: Scores, rows: Tensor, labels: Tensor, fold: Tensor, classes: int) -> Tensor:
    """(n, classes) log scores of each labelled image by a classifier that was not trained on it."""
    scores = torch.empty(len(rows), classes)
    for number in range(int(fold.max()) + 1):
        judged = fold == number
        scores[judged] = way(rows[~judged], labels[~judged], rows[judged]).float()
    return scores


def _judge(scores: Tensor, labels: Tensor, fold: Tensor) -> Judged:
    hits = (scores.argmax(dim=1) == labels).double()
    values = [hits[fold == number].mean().item() for number in range(int(fold.max()) + 1)]
    return Judged(mean(values), stdev(values))


def _best_temperature(scores: Tensor, labels: Tensor) -> tuple[float, float]:
    """The temperature with the lowest cross-entropy, and that cross-entropy."""
    losses = {
        t: -(scores.double() / t).log_softmax(dim=1)[torch.arange(len(labels)), labels].mean().item()
        for t in TEMPERATURES
    }
    best = min(losses, key=lambda t: (losses[t], abs(math.log(t))))
    return best, losses[best]
