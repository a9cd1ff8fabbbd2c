"""Draws of a few images of each class, and their division."""

import math

import numpy as np
import pytest

from cacr.errors import UserError
from cacr.evaluation.data.shots import divide, draw_shots


def test_every_class_gets_its_number_and_the_seed_decides_which() -> None:
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(4), [9, 12, 20, 7]))
    draws = [draw_shots(labels, 4, 5, seed) for seed in (0, 0, 1)]
    assert np.array_equal(draws[0], draws[1]) and not np.array_equal(draws[0], draws[2])
    for draw in draws:
        assert len(set(draw.tolist())) == 20
        assert np.bincount(labels[draw]).tolist() == [5, 5, 5, 5]
    expected, taken = [], dict.fromkeys(range(4), 0)  # shuffled, then greedily until each class has enough
    for index in np.random.default_rng(1).permutation(len(labels)):
        if taken[labels[index]] < 5:
            taken[labels[index]] += 1
            expected.append(index)
    assert draws[2].tolist() == expected


def test_images_of_several_classes_are_taken_while_one_of_them_lacks_images() -> None:
    shown = (np.random.default_rng(0).random((60, 3)) < [0.2, 0.5, 0.3]).astype(np.float32)
    draw = draw_shots(shown, 3, 4, seed=0)
    assert (shown[draw].sum(axis=0) >= 4).all()
    for place, index in enumerate(draw):  # each was needed when it was taken
        before = shown[draw[:place]].sum(axis=0)
        assert (before[shown[index] > 0] < 4).any()


def test_all_classes_with_too_few_images_are_named_at_once() -> None:
    labels = np.repeat(np.arange(3), [2, 9, 4])
    with pytest.raises(UserError) as caught:
        draw_shots(labels, 3, 5, 0, ["ape", "bee", "cat"])
    text = str(caught.value)
    assert "2 of 3 classes" in text and "ape (2), cat (4)" in text and "choose at most 2" in text
    with pytest.raises(UserError, match=r"class 3 \(0\).*give these classes more images"):
        draw_shots(labels, 4, 2, 0)


@pytest.mark.parametrize("count", [2, 4, 5, 6, 15])
def test_the_first_fifth_of_each_class_judges(count: int) -> None:
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(3), count))
    train, judge = divide(labels, 3)
    assert sorted([*train, *judge]) == list(range(3 * count))
    for label in range(3):
        members = np.flatnonzero(labels == label)
        assert set(members[: math.ceil(count / 5)]) == set(judge) & set(members)


def test_one_image_of_each_class_cannot_be_divided() -> None:
    with pytest.raises(UserError, match="more than one training image"):
        divide(np.arange(4), 4)
