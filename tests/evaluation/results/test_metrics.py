"""Metrics against scikit-learn and against the definition written out."""

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, balanced_accuracy_score, roc_auc_score

from cacr.evaluation.results.metrics import METRICS


def _case(seed: int, classes: int, *, ties: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    generator = np.random.default_rng(seed)
    scores = generator.normal(size=(60, classes))
    labels = np.r_[np.arange(classes), generator.integers(0, classes, 60 - classes)]
    if ties:
        scores = scores.round(0)
    return torch.from_numpy(scores), torch.from_numpy(labels)


@pytest.mark.parametrize("seed", range(3))
def test_accuracies_equal_those_of_scikit_learn(seed: int) -> None:
    scores, labels = _case(seed, 5)
    predicted = scores.argmax(dim=1)
    assert METRICS["accuracy"](scores, labels) == pytest.approx(accuracy_score(labels, predicted))
    assert METRICS["mean-per-class"](scores, labels) == pytest.approx(
        balanced_accuracy_score(labels, predicted)
    )


@pytest.mark.parametrize("ties", [False, True])
def test_auc_equals_that_of_scikit_learn(ties: bool) -> None:
    scores, labels = _case(0, 2, ties=ties)
    expected = roc_auc_score(labels, (scores[:, 1] - scores[:, 0]).numpy())
    assert METRICS["roc-auc"](scores, labels) == pytest.approx(expected)
    scores, labels = _case(1, 4, ties=ties)
    expected = np.mean([roc_auc_score(labels == c, scores[:, c]) for c in range(4)])
    assert METRICS["roc-auc"](scores, labels) == pytest.approx(expected)


def _eleven_points(scores: np.ndarray, truth: np.ndarray) -> float:
    """The definition, recall by recall: the best precision among all cuts that reach it."""
    order = np.argsort(-scores, kind="stable")
    cuts = []
    for kept in range(1, len(order) + 1):
        hits = truth[order[:kept]].sum()
        cuts.append((hits / truth.sum(), hits / kept))
    return float(np.mean([max(p for r, p in cuts if r >= level / 10 - 1e-9) for level in range(11)]))


def test_average_precision_is_the_eleven_point_one() -> None:
    generator = np.random.default_rng(0)
    scores, truth = generator.normal(size=(80, 4)), generator.random((80, 4)) < 0.2
    truth[:, 3] = False  # a class that does not occur counts for nothing
    scores[truth] += 1
    expected = np.mean([_eleven_points(scores[:, c], truth[:, c]) for c in range(3)])
    found = METRICS["map-11"](torch.from_numpy(scores), torch.from_numpy(truth).float())
    assert found == pytest.approx(expected)
    assert 0.3 < found < 0.95
    perfect = torch.from_numpy(truth[:, :3]).float()
    assert METRICS["map-11"](perfect, perfect) == 1


def test_scores_that_are_no_numbers_are_never_right() -> None:
    scores, labels = torch.full((6, 2), float("nan")), torch.tensor([0, 0, 0, 1, 1, 1])
    assert [METRICS[name](scores, labels) for name in METRICS] == [0, 0, 0, 0]
