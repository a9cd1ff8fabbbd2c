"""Selecting: against literal versions of each rule, on features made for it."""

import numpy as np
import pytest

from cacr.errors import UserError
from cacr.sorting.select import select_images
from tests.sorting.making import blobs, collection


def _distances(x: np.ndarray) -> np.ndarray:
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    return np.linalg.norm(unit[:, None] - unit[None], axis=2)


def test_coverage_is_the_greedy_k_centre() -> None:
    x = np.random.default_rng(0).normal(size=(60, 8))
    chosen = select_images(collection(x), by="coverage", number=12).chosen.tolist()
    distance = _distances(x)
    for place in range(1, 12):
        nearest = distance[:, chosen[:place]].min(axis=1)
        assert nearest[chosen[place]] == pytest.approx(nearest.max(), abs=1e-5)
    labelled = [3, 7]
    labels = [0 if number in labelled else -1 for number in range(60)]
    more = select_images(collection(x, labels, ("a",)), by="coverage", number=5).chosen.tolist()
    assert distance[more[0], labelled].min() == pytest.approx(
        distance[:, labelled].min(axis=1).max(), abs=1e-5
    )
    assert not set(more) & set(labelled)


@pytest.mark.parametrize("way", ["coverage", "k-means++", "typical"])
def test_every_cluster_is_covered_and_no_image_comes_twice(way: str) -> None:
    x, which = blobs([40, 20, 10, 5, 5], noise=0.02)
    selection = select_images(collection(x), by=way, number=5, seed=1)
    assert sorted(which[selection.chosen]) == [0, 1, 2, 3, 4]
    everything = select_images(collection(x), by=way, number=1000).chosen
    assert sorted(everything.tolist()) == list(range(80))


def test_typical_images_are_the_densest_of_their_cluster_the_largest_first() -> None:
    x, which = blobs([40, 25, 12], noise=0.4)
    selection = select_images(collection(x), by="typical", number=3)
    assert which[selection.chosen].tolist() == [0, 1, 2]
    distance = _distances(x)
    for image in selection.chosen.tolist():
        own = np.flatnonzero(which == which[image])
        k = min(20, len(own) - 1)
        means = {one: np.sort(distance[one, own])[1 : k + 1].mean() for one in own.tolist()}
        assert means[image] == pytest.approx(min(means.values()), rel=1e-4)


def test_clusters_with_a_label_come_last() -> None:
    x, which = blobs([40, 20, 10], noise=0.2)
    labels = [-1] * 70
    labels[0] = 0
    selection = select_images(collection(x, labels, ("a",)), by="typical", number=2)
    assert set(which[selection.chosen]) == {1, 2}


def test_outliers_are_farthest_from_their_ten_nearest() -> None:
    x, _ = blobs([50, 50], noise=0.2)
    x[17] = -np.eye(16)[0]
    selection = select_images(collection(x), by="outliers", number=100)
    distance = np.sort(_distances(x), axis=1)[:, 1:11].mean(axis=1)
    assert selection.chosen[0] == 17
    np.testing.assert_allclose(selection.score, np.sort(distance)[::-1], rtol=1e-3, atol=1e-3)


def test_what_lies_between_two_labelled_classes_is_uncertain() -> None:
    x, _ = blobs([20, 20], noise=0.05)
    between = np.array([[1.0, 1.0] + [0.0] * 14, [1.0, 0.8] + [0.0] * 14])
    labels = [0] * 10 + [-1] * 10 + [1] * 10 + [-1] * 12
    selection = select_images(collection(np.concatenate([x, between]), labels, ("a", "b")), by="uncertain")
    assert selection.chosen[0] == 40 and len(selection.chosen) == 22
    assert selection.score[0] == pytest.approx(np.log(2), abs=0.05)
    with pytest.raises(UserError, match=r"has no labels: .*--labels FILE\.csv"):
        select_images(collection(x), by="uncertain")
    with pytest.raises(UserError, match="all labels are 'a'"):
        select_images(collection(x, [0] * 5 + [-1] * 35, ("a",)), by="uncertain")


def test_wrong_wishes_are_told() -> None:
    x, _ = blobs([5])
    with pytest.raises(UserError, match="did you mean coverage"):
        select_images(collection(x), by="covrage")
    with pytest.raises(UserError, match="at least 1"):
        select_images(collection(x), number=0)
    with pytest.raises(UserError, match="from -1 to 1"):
        select_images(collection(x), by="duplicates", threshold=2)
