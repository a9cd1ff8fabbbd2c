"""Groups: the clusters that were made, named by their labels."""

import numpy as np
import pytest

from cacr.errors import UserError
from cacr.sorting.group import group_images
from tests.sorting.making import blobs, collection


def test_the_number_of_clusters_is_found() -> None:
    x, which = blobs([40, 30, 20, 10], noise=0.4)
    groups = group_images(collection(x))
    assert groups.chosen and [len(group.images) for group in groups.groups] == [40, 30, 20, 10]
    assert all(len(set(which[group.images])) == 1 for group in groups.groups)
    assert groups.silhouette > 0.5
    for group in groups.groups:
        assert (np.diff(group.similarity) <= 0).all()
    cloud = group_images(collection(np.random.default_rng(0).normal(size=(200, 32))), number=4)
    assert cloud.silhouette < 0.1 and not cloud.chosen


def test_groups_are_named_by_the_label_that_most_have() -> None:
    x, _ = blobs([30, 20, 10], noise=0.2)
    labels = [0, 0, 1] + [-1] * 27 + [1] + [-1] * 29
    groups = group_images(collection(x, labels, ("cat", "dog")), number=3).groups
    assert [group.name for group in groups] == ["cat", "dog", "group 3"]
    assert [(group.labelled, group.agreeing) for group in groups] == [(3, 2), (1, 1), (0, 0)]
    twice = group_images(collection(x, [0] * 60, ("cat",)), number=3).groups
    assert [group.name for group in twice] == ["cat", "cat (2)", "cat (3)"]


def test_more_groups_than_images_are_refused() -> None:
    x, _ = blobs([3, 3])
    for number in (0, 7):
        with pytest.raises(UserError, match="6 images can be divided into 1 to 6 groups"):
            group_images(collection(x), number=number)
    assert len(group_images(collection(x[:3])).groups) == 1
