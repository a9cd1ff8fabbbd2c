"""Measures of a set of embeddings against their definitions, written out."""

import math

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from cacr.diagnostics.measures import effective_rank, measure_embeddings, minibatches, online_knn
from cacr.losses import OBJECTIVES
from tests.losses.making import make_objective
from tests.oracle import cacr as oracle

LOGGED = {"step", "epoch", "lr", "images_per_second", "data_wait", "knn", "trivial_loss"}
"""Figures of every run beside those of its embeddings."""


@pytest.fixture(params=[1024, 7])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All images in one block, or in several of which the last is smaller."""
    monkeypatch.setattr("cacr.diagnostics.measures.BLOCK", request.param)


def _unit(views: int, images: int, dim: int, seed: int = 0) -> np.ndarray:
    z = np.random.default_rng(seed).normal(size=(views, images, dim))
    z[1:] = z[0] + 0.3 * z[1:]  # views of one image are alike
    return z / np.linalg.norm(z, axis=-1, keepdims=True)


@pytest.mark.usefixtures("blocks")
def test_distances_and_alignment() -> None:
    z = _unit(3, 20, 6)
    found = measure_embeddings(torch.from_numpy(z))
    near = [np.sum((z[v, i] - z[w, i]) ** 2) for v in range(3) for w in range(3) if v < w for i in range(20)]
    far = [np.sum((z[0, i] - z[0, j]) ** 2) for i in range(20) for j in range(20) if i < j]
    assert found["positive_distance"] == pytest.approx(np.mean(near))
    assert found["positive_distance_std"] == pytest.approx(np.std(near))
    assert found["negative_distance"] == pytest.approx(np.mean(far))
    assert found["negative_distance_std"] == pytest.approx(np.std(far))
    assert found["alignment"] == pytest.approx(np.mean(near))
    spread = [
        math.log(
            np.mean(
                [
                    np.exp(-2 * np.sum((z[v, i] - z[v, j]) ** 2))
                    for i in range(20)
                    for j in range(20)
                    if i != j
                ]
            )
        )
        for v in range(2)
    ]
    assert found["uniformity"] == pytest.approx(np.mean(spread))


def test_entropies_are_those_of_minibatches_of_128_images() -> None:
    z = _unit(3, 300, 8)
    found = measure_embeddings(torch.from_numpy(z))
    parts = [z[:, :128], z[:, 128:256]]
    assert [part.shape[1] for part in minibatches(torch.from_numpy(z))] == [128, 128]
    entropy = np.mean([oracle.entropy(part, 2.0, "same") for part in parts])
    assert found["entropy"] == pytest.approx(entropy)
    assert found["max_entropy"] == pytest.approx(math.log(127))
    assert found["mutual_information"] == pytest.approx(math.log(127) - entropy)


def test_positive_entropy_and_reversed_forces() -> None:
    z, t_pos, t_neg = _unit(4, 10, 3), 3.0, 5.0
    found = measure_embeddings(torch.from_numpy(z), t_pos=t_pos, t_neg=t_neg)
    entropies, wrong, pairs = [], 0, 0
    for v in range(4):
        for i in range(10):
            c = np.array([np.sum((z[v, i] - z[w, i]) ** 2) for w in range(4) if w != v])
            weights = np.exp(c) / np.exp(c).sum()
            entropies.append(-np.sum(weights * np.log(weights)))
            pull = np.exp(t_pos * c) / np.exp(t_pos * c).sum()
            wrong += np.sum(c < np.sum(pull * c) - 1 / t_pos)
            d = np.array([np.sum((z[v, i] - z[v, j]) ** 2) for j in range(10) if j != i])
            push = np.exp(-t_neg * d) / np.exp(-t_neg * d).sum()
            wrong += np.sum(d > np.sum(push * d) + 1 / t_neg)
            pairs += len(c) + len(d)
    assert found["positive_entropy"] == pytest.approx(np.mean(entropies))
    assert 0 < wrong < pairs
    assert found["reversed_forces"] == pytest.approx(wrong / pairs)


def test_effective_rank() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(50, 6)) * [5, 3, 1, 0.5, 0.1, 0.01]
    values = np.linalg.svd(z, compute_uv=False)
    p = values / values.sum()
    assert effective_rank(torch.from_numpy(z)) == pytest.approx(np.exp(-np.sum(p * np.log(p))))
    line = torch.from_numpy(rng.normal(size=(50, 1)) * rng.normal(size=6))
    assert effective_rank(line) == pytest.approx(1)
    assert effective_rank(torch.eye(7)) == pytest.approx(7)


def test_a_point_has_the_largest_entropy_and_no_spread() -> None:
    z = torch.ones(2, 30, 5) + 1e-5 * torch.randn(2, 30, 5, generator=torch.Generator().manual_seed(0))
    found = measure_embeddings(z)
    assert found["entropy"] == pytest.approx(math.log(29), abs=1e-4)
    assert found["negative_distance"] < 1e-6 and found["uniformity"] == pytest.approx(0, abs=1e-4)
    assert found["effective_rank"] < 1.01


@pytest.mark.usefixtures("blocks")
def test_online_knn_votes_among_the_other_images() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 40)
    x = rng.normal(size=(40, 4)) + 0.8 * np.eye(3, 4)[labels]
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    right = 0
    for i in range(40):
        others = [j for j in range(40) if j != i]
        near = sorted(others, key=lambda j: -x[i] @ x[j])[:20]
        votes = [sum(math.exp(x[i] @ x[j] / 0.07) for j in near if labels[j] == c) for c in range(3)]
        right += int(np.argmax(votes)) == labels[i]
    assert 10 < right < 40
    assert online_knn(torch.from_numpy(3 * x), torch.from_numpy(labels)) == right / 40


@pytest.mark.usefixtures("blocks")
def test_online_knn_reads_the_features_of_many_images() -> None:
    """What tells the classes apart is small beside a common part and a direction that varies for another reason."""
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 3, 120)
    x = np.concatenate([20 + 2 * rng.normal(size=(120, 1)), 0.1 * rng.normal(size=(120, 3))], axis=1)
    x[:, 1:] += 0.3 * np.eye(3)[labels]
    parts = PCA(4)
    read = parts.fit_transform(x.astype(np.float32).astype(np.float64)) / parts.explained_variance_**0.25
    read /= np.linalg.norm(read, axis=1, keepdims=True)
    cosines = read @ read.T - 9 * np.eye(120)
    near = np.argsort(-cosines, axis=1)[:, :20]
    votes = [
        [sum(math.exp(cosines[i, j] / 0.07) for j in near[i] if labels[j] == c) for c in range(3)]
        for i in range(120)
    ]
    expected = float((np.argmax(votes, axis=1) == labels).mean())
    assert expected > 0.9
    assert online_knn(torch.from_numpy(x).float(), torch.from_numpy(labels)) == pytest.approx(expected)


def test_online_knn_with_fewer_images_than_neighbours() -> None:
    x = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
    assert online_knn(x, torch.tensor([0, 0, 1, 1])) == 1.0


@pytest.mark.parametrize("name", OBJECTIVES.names())
def test_no_part_of_a_loss_has_the_name_of_another_figure(name: str) -> None:
    """Parts are of the batches that are trained on, measures of held-out images: one column must not hold both."""
    z = torch.from_numpy(_unit(2, 6, 5))
    parts = make_objective(name, 5).double().parts(z)
    assert not parts.keys() & (measure_embeddings(z).keys() | LOGGED)
