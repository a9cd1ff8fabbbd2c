"""Guesses: against scikit-learn's cross-validation, and confidences that mean what they say."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from cacr.errors import UserError
from cacr.evaluation.data.splits import folds
from cacr.sorting.predict import Guesses, predict_labels
from tests.sorting.making import blobs, collection

NAMES = ("a", "b", "c")


def _some(noise: float, known: int = 60, each: int = 100) -> tuple[np.ndarray, np.ndarray, list[int]]:
    x, which = blobs([each] * 3, noise=noise, seed=2)
    order = np.random.default_rng(0).permutation(len(which))
    x, which = x[order], which[order]
    return x, which, [int(label) if number < known else -1 for number, label in enumerate(which)]


def test_the_accuracy_is_that_of_cross_validation() -> None:
    x, which, labels = _some(noise=3.0)
    guesses = predict_labels(collection(x, labels, NAMES), by="knn-1")
    fold, unit = folds(which[:60], 5, 0), x / np.linalg.norm(x, axis=1, keepdims=True)
    scores = []
    for number in range(5):
        rows = fold != number
        model = KNeighborsClassifier(1).fit(unit[:60][rows], which[:60][rows])
        scores.append(model.score(unit[:60][~rows], which[:60][~rows]))
    assert guesses.judged is not None
    assert guesses.judged.accuracy == pytest.approx(np.mean(scores))
    assert guesses.judged.spread == pytest.approx(np.std(scores, ddof=1))
    expected = KNeighborsClassifier(1).fit(unit[:60], which[:60]).predict(unit[guesses.images])
    assert guesses.classes[:, 0].tolist() == expected.tolist()


@pytest.mark.parametrize("by", ["knn-20", "linear"])
def test_a_confidence_is_about_how_often_it_is_right(by: str) -> None:
    x, which, labels = _some(noise=3.0, known=600, each=400)
    guesses = predict_labels(collection(x, labels, NAMES), by=by)
    right = (guesses.classes[:, 0] == which[guesses.images]).mean()
    assert 0.5 < right < 0.99  # or there would be nothing to calibrate
    assert guesses.confidence[:, 0].mean().item() == pytest.approx(right, abs=0.1)


def test_the_best_is_chosen_and_the_least_certain_come_first() -> None:
    x, which, labels = _some(noise=0.3)
    guesses = predict_labels(collection(x, labels, NAMES))
    assert guesses.judged is not None and guesses.judged.accuracy == 1
    assert all(other.accuracy <= 1 for other in guesses.others.values()) and len(guesses.others) == 3
    assert sorted(guesses.images.tolist()) == list(range(60, 300))
    assert (guesses.classes[:, 0] == which[guesses.images]).all()
    assert (guesses.confidence[:, 0].diff() >= 0).all()
    assert (guesses.confidence.sum(dim=1) <= 1 + 1e-9).all()


def test_wrong_labels_are_found_among_the_labelled() -> None:
    x, which, labels = _some(noise=0.3)
    labels[5] = (which[5] + 1) % 3
    guesses = predict_labels(collection(x, labels, NAMES), everything=True, by="knn-5")
    guessed = dict(zip(guesses.images.tolist(), guesses.classes[:, 0].tolist(), strict=True))
    assert len(guessed) == 300 and guessed[5] == which[5] != labels[5]


def test_guesses_can_come_from_elsewhere() -> None:
    probabilities = torch.tensor([[0.1, 0.9], [0.6, 0.4]])
    guesses = Guesses.of(probabilities, np.array([7, 3]), ("cat", "dog"), "words")
    assert guesses.images.tolist() == [3, 7] and guesses.classes.tolist() == [[0, 1], [1, 0]]
    assert replace(guesses, by="other").judged is None


def test_too_little_to_learn_from_is_told() -> None:
    x, _ = blobs([5, 5])
    for labels, names, message in (
        (None, (), "has no labels"),
        ([0, 0] + [-1] * 8, ("a",), "all labels are 'a'"),
        ([0] + [-1] * 8 + [1], ("a", "b"), "no class has more than one label"),
        ([0] * 5 + [1] * 5, ("a", "b"), "every image has a label already"),
    ):
        with pytest.raises(UserError, match=message):
            predict_labels(collection(x, labels, names))
    with pytest.raises(UserError, match="did you mean linear"):
        predict_labels(collection(x, [0, 0, 1, 1] + [-1] * 6, ("a", "b")), by="liner")
