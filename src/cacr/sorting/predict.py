"""``cacr predict``: labels for all images from the few that have one, each with how sure it is."""

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
"""Parts of the labels, each of which judges classifiers that learned from the others."""

NEIGHBOURS = (1, 5, 20)
"""Numbers of neighbours that are tried."""

VOTE_TEMPERATURE = 0.07
"""Of the neighbours' votes, as in the kNN protocol."""

NO_VOTE = 1e-3
"""Share of the votes that every class is given: a class without a neighbour is unlikely, not impossible."""

TEMPERATURES = tuple(2 ** (step / 4) for step in range(-16, 17))
"""Tried for calibration, from 1/16 to 16: scores are divided by the one under which known labels are likeliest."""

Scores = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Of rows to learn from, their labels, and rows to judge: log scores (m, classes)."""


@dataclass(frozen=True)
class Judged:
    """How good a classifier is on labels that it did not learn from.

    Attributes:
        accuracy: Mean over the folds.
        spread: Standard deviation over the folds.
    """

    accuracy: float
    spread: float


@dataclass(frozen=True)
class Guesses:
    """A guess for each image, the least certain first.

    Attributes:
        images: (m,) numbers of the images.
        classes: (m, 2) the likeliest class and the next; the same twice where there is one class only.
        confidence: (m, 2) their probabilities.
        class_names: The name of each class.
        by: What guessed: ``knn-5``, ``linear``.
        judged: How good it is; None where nothing could judge it.
        others: How good what was not chosen is, by name.
        everything: Whether labelled images were guessed too.
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
        """Guesses from the probabilities (m, classes) of images, wherever these come from."""
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
    """Guess the labels of all images of a collection that have none.

    Nearest neighbours and a linear classifier are cross-validated on the labels there are, and the better one guesses.
    Its scores are divided by the temperature under which labels that it did not learn from are likeliest, so that of
    guesses with confidence 0.8 about 80 % are right.

    Args:
        found: The images, some with labels.
        by: ``auto``, ``knn-1``, ``knn-5``, ``knn-20`` or ``linear``.
        everything: Guess for labelled images too: one that differs from the label may be a wrong label.
        seed: Of the folds and of the linear classifier.
        progress: Called with the number of classifiers judged and in all.

    Raises:
        UserError: there are no labels, or nothing to guess.
    """
    where, labels, names = found.labelled()
    ways = _ways(found, len(names), seed)
    if by != "auto" and by not in ways:
        raise UserError(f"there is no classifier {by!r}; {nearest(by, ['auto', *ways])}")
    if len(names) < 2:
        raise UserError(f"all labels are {printable(names[0])!r}: give labels of two classes at least")
    wanted = np.arange(len(found)) if everything else np.setdiff1d(np.arange(len(found)), where)
    if not len(wanted):
        raise UserError(
            "every image has a label already; --all guesses for labelled images too, to find wrong labels"
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
    # Few labels leave many ways equally accurate: the one under which the labels are likeliest wins then.
    best = max(
        chosen,
        key=lambda name: (round(judged[name].accuracy, 9), -_best_temperature(outside[name], truth)[1]),
    )
    temperature, _ = _best_temperature(outside[best], truth)
    scores = chosen[best](rows, truth, torch.from_numpy(wanted))
    if everything:  # a labelled image is not to be guessed by a classifier that knows its label
        scores[rows] = outside[best]
    probabilities = (scores.double() / temperature).softmax(dim=1)
    others = {name: value for name, value in judged.items() if name != best}
    guesses = Guesses.of(probabilities, wanted, names, best)
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
        UserError: no class has two labels, so that nothing could judge.
    """
    if np.bincount(labels).max() < 2:
        raise UserError(
            "no class has more than one label, so nothing can be judged: label two images of a class"
        )
    return torch.from_numpy(folds(labels, min(FOLDS, len(labels)), seed))


def _out_of_fold(way: Scores, rows: Tensor, labels: Tensor, fold: Tensor, classes: int) -> Tensor:
    """(n, classes) log scores of each labelled image by a classifier that did not learn from it."""
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
