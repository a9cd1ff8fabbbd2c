import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from cacr.evaluation.protocols import knn
from cacr.evaluation.protocols.knn import knn_predict
from cacr.features import neighbours

pytestmark = pytest.mark.trains


def data(train: int, test: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 4, (train,), generator=generator)
    centres = torch.randn(4, 8, generator=generator)
    features = centres[labels] + torch.randn(train, 8, generator=generator)
    return features, labels, torch.randn(test, 8, generator=generator)


@pytest.mark.parametrize("k", [1, 7, 50, 10_000])
@pytest.mark.parametrize("temperature", [0.02, 0.5])
def test_it_is_weighted_nearest_neighbours_of_scikit_learn(
    k: int, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(knn, "QUERIES", 30)  # several blocks of each kind, and incomplete ones
    monkeypatch.setattr(neighbours, "KEYS", 64)
    train, labels, test = data(200, 100)
    oracle = KNeighborsClassifier(
        min(k, 200), metric="cosine", weights=lambda distance: np.exp((1 - distance) / temperature)
    ).fit(train.double(), labels)
    predicted = knn_predict(train, labels, test, k=k, temperature=temperature)
    assert predicted.tolist() == oracle.predict(test.double()).tolist()


def test_a_tiny_temperature_is_the_nearest_neighbour() -> None:
    train, labels, test = data(200, 100)
    predicted = knn_predict(train, labels, test, k=50, temperature=1e-6)
    assert predicted.tolist() == knn_predict(train, labels, test, k=1, temperature=1.0).tolist()
