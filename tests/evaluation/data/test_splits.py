import numpy as np
import pytest

from cacr.errors import UserError
from cacr.evaluation.data.splits import draw_per_class, folds, stratified_split

LABELS = np.random.default_rng(0).permutation(np.repeat([0, 1, 2, 5], [100, 50, 7, 1]))


def test_a_stratified_fifth_is_held_out() -> None:
    train, test = stratified_split(LABELS, 0.2, seed=3)
    assert sorted([*train, *test]) == list(range(len(LABELS)))
    assert np.bincount(LABELS[test]).tolist() == [20, 10, 1]
    assert np.bincount(LABELS[train]).tolist() == [80, 40, 6, 0, 0, 1]
    again, other = stratified_split(LABELS, 0.2, seed=3)[1], stratified_split(LABELS, 0.2, seed=4)[1]
    assert np.array_equal(test, again)
    assert not np.array_equal(test, other)


def test_a_draw_has_as_many_of_each_class() -> None:
    labels = LABELS[LABELS < 5]
    chosen = draw_per_class(labels, 6, seed=0)
    assert len(set(chosen)) == 18
    assert np.bincount(labels[chosen]).tolist() == [6, 6, 6]
    assert not np.array_equal(chosen, draw_per_class(labels, 6, seed=1))


def test_a_class_with_too_few_labels_is_named() -> None:
    with pytest.raises(UserError, match=r"class 2 has only 7 labelled images.*choose at most 7"):
        draw_per_class(LABELS[LABELS < 5], 8, seed=0)
    with pytest.raises(UserError, match="class a pear has only 7 labelled images"):
        draw_per_class(LABELS[LABELS < 5], 8, seed=0, class_names=["plum", "fig", "a pear", "nut", "date"])


def test_folds_are_stratified_and_equally_large() -> None:
    labels = np.repeat(np.arange(10), 10)
    number = folds(labels, 5, seed=0)
    for fold in range(5):
        assert np.bincount(labels[number == fold]).tolist() == [2] * 10
    assert np.bincount(folds(np.repeat(np.arange(7), 3), 5, seed=0)).tolist() == [5, 4, 4, 4, 4]
