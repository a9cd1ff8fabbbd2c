"""The map: neighbours stay neighbours, whatever the number of points."""

import numpy as np
import pytest
import torch

from cacr.features.layout import aligned, clusters, layout


def _blobs(count: int, dim: int = 16, each: int = 30, noise: float = 0.1) -> tuple[torch.Tensor, np.ndarray]:
    rng = np.random.default_rng(0)
    centres = np.linalg.qr(rng.normal(size=(dim, count)))[0].T
    labels = np.repeat(np.arange(count), each)
    x = centres[labels] + noise * rng.normal(size=(len(labels), dim))
    return torch.nn.functional.normalize(torch.tensor(x, dtype=torch.float32), dim=1), labels


def _nearest_has_same_label(places: np.ndarray, labels: np.ndarray) -> float:
    distance = ((places[:, None] - places[None]) ** 2).sum(-1)
    np.fill_diagonal(distance, np.inf)
    return float((labels[distance.argmin(1)] == labels).mean())


@pytest.mark.parametrize("sample", [1000, 45])
def test_blobs_stay_together(sample: int) -> None:
    x, labels = _blobs(4)
    places = layout(x, sample=sample)
    assert places.shape == (120, 2) and places.min() >= 0 and places.max() <= 1
    assert np.isclose((places.max(0) - places.min(0)).max(), 1)
    assert _nearest_has_same_label(places, labels) > 0.97
    assert np.array_equal(places, layout(x, sample=sample))


@pytest.mark.parametrize("count", [1, 2, 4, 5, 7])
def test_few_points_have_places(count: int) -> None:
    x, _ = _blobs(count, each=1, noise=0.0)
    places = layout(x)
    assert places.shape == (count, 2) and np.isfinite(places).all()
    assert places.min() >= 0 and places.max() <= 1


def test_a_collapsed_encoder_is_one_point() -> None:
    x = torch.nn.functional.normalize(torch.ones(50, 8), dim=1)
    assert np.allclose(layout(x), 0.5)
    assert set(clusters(x, 5)) == {0}


def test_a_layout_is_turned_onto_another() -> None:
    rng = np.random.default_rng(0)
    first = rng.random((40, 2)) * [1, 0.4]
    turn = np.array([[np.cos(2), -np.sin(2)], [np.sin(2), np.cos(2)]])
    mirrored = (first @ turn) * [1, -1]
    back = aligned(mirrored, first)
    low, high = first.min(0), first.max(0)
    expected = (first - (low + high) / 2) / (high - low).max() + 0.5
    assert np.allclose(back, expected)


def test_clusters_are_the_blobs_and_the_largest_is_first() -> None:
    x, labels = _blobs(3)
    x, labels = torch.cat([x[60:], x]), np.concatenate([labels[60:], labels])
    found = clusters(x, 3)
    assert sorted(set(found)) == [0, 1, 2]
    assert set(found[labels == 2]) == {0}
    for label in range(3):
        assert len(set(found[labels == label])) == 1
