"""Clusters against classes: matching by trying every permutation, NMI and ARI by their definitions."""

from itertools import combinations, permutations
from math import log
from pathlib import Path

import numpy as np
import pytest
from sklearn.cluster import KMeans

from cacr.errors import UserError
from cacr.evaluation import evaluate_run
from cacr.evaluation.protocols.cluster import matched_accuracy
from cacr.features.clusters import best_kmeans

pytestmark = pytest.mark.trains


def _nmi(a: np.ndarray, b: np.ndarray) -> float:
    """I(A; B) / ((H(A) + H(B)) / 2)."""

    def entropy(x: np.ndarray) -> float:
        return -sum(np.mean(x == value) * log(np.mean(x == value)) for value in np.unique(x))

    shared = 0.0
    for i in np.unique(a):
        for j in np.unique(b):
            if both := np.mean((a == i) & (b == j)):
                shared += both * log(both / (np.mean(a == i) * np.mean(b == j)))
    return shared / ((entropy(a) + entropy(b)) / 2)


def _ari(a: np.ndarray, b: np.ndarray) -> float:
    """Agreement of all pairs of images, corrected for chance."""
    pairs = list(combinations(range(len(a)), 2))
    together = sum(a[i] == a[j] and b[i] == b[j] for i, j in pairs)
    in_a, in_b = (sum(x[i] == x[j] for i, j in pairs) for x in (a, b))
    expected = in_a * in_b / len(pairs)
    return (together - expected) / ((in_a + in_b) / 2 - expected)


@pytest.mark.parametrize("clusters", [2, 4, 6])
def test_matched_accuracy_is_the_best_matching(clusters: int) -> None:
    rng = np.random.default_rng(clusters)
    labels, found = rng.integers(0, 4, 50), rng.integers(0, clusters, 50)
    names = [*range(4), *[-1] * clusters]  # a cluster may stay without a class
    best = max(
        np.mean(np.array(chosen)[found] == labels) for chosen in set(permutations(names[:6], clusters))
    )
    assert matched_accuracy(labels, found) == pytest.approx(best, rel=1e-12)


def test_the_tightest_of_several_starts_is_kept() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(80, 3)).astype(np.float32)
    model = best_kmeans(features, 7, 6, seed=3)
    alone = [best_kmeans(features, 7, restarts, seed=3).inertia_ for restarts in range(1, 7)]
    assert model.inertia_ == min(alone) < alone[0]
    assert model.inertia_ <= 1.02 * KMeans(7, n_init=20, random_state=0).fit(features).inertia_
    np.testing.assert_array_equal(model.labels_, best_kmeans(features, 7, 6, seed=3).labels_)


def test_the_protocol_finds_classes_without_labels(
    run: Path, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cacr.evaluation.protocols import cluster as module

    kept: dict[str, np.ndarray] = {}

    def keep(labels: np.ndarray, clusters: np.ndarray) -> float:
        kept.update(labels=labels, clusters=clusters)
        return matched_accuracy(labels, clusters)

    monkeypatch.setattr(module, "matched_accuracy", keep)
    values = {"data": str(images), "protocol": ["cluster"], "restarts": 3, "workers": 0, "baselines": ()}
    (result,) = evaluate_run(run, values)
    assert result.metric == "matched accuracy" and result.details["clusters"] == 3
    assert result.score == matched_accuracy(kept["labels"], kept["clusters"]) > 0.6
    assert result.also["NMI"] == pytest.approx(_nmi(kept["labels"], kept["clusters"]), rel=1e-9)
    assert result.also["ARI"] == pytest.approx(_ari(kept["labels"], kept["clusters"]), rel=1e-9)
    with pytest.raises(UserError, match="36 training images are too few for 37 clusters"):
        evaluate_run(run, {**values, "clusters": 37})
