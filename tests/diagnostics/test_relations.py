"""Relations inside a set of embeddings, against literal NumPy versions."""

import numpy as np
import pytest
import torch

from cacr.data.pixels import correlation
from cacr.diagnostics import relations
from cacr.diagnostics.relations import Related, hardest_pushes, nearest_others
from cacr.diagnostics.suspects import ImagePairs, agree, among, one_each, pairs_of


def _unit(n: int, dim: int, seed: int = 0) -> torch.Tensor:
    return torch.nn.functional.normalize(
        torch.randn(n, dim, generator=torch.Generator().manual_seed(seed)), dim=1
    )


def _oracle_nearest(x: np.ndarray, k: int) -> list[list[int]]:
    found = []
    for i in range(len(x)):
        others = [j for j in range(len(x)) if j != i]
        found.append(sorted(others, key=lambda j: -float(x[i] @ x[j]))[:k])
    return found


@pytest.mark.parametrize("rows", [3, 1000])
def test_nearest_are_those_of_a_full_sort(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(relations, "_CHUNK_ELEMENTS", rows * 40)
    x = _unit(40, 6)
    done: list[tuple[int, int]] = []
    found = nearest_others(x, 5, lambda *step: done.append(step))
    assert found.index.tolist() == _oracle_nearest(x.double().numpy(), 5)
    cosines = (x.double() @ x.double().T).gather(1, found.index)
    assert torch.allclose(found.value.double(), cosines, atol=1e-6)
    assert done[-1] == (40, 40) and len(done) == -(-40 // min(rows, 40))


def test_there_are_never_more_neighbours_than_others() -> None:
    assert nearest_others(_unit(3, 4), 8).index.shape == (3, 2)
    assert nearest_others(_unit(1, 4), 8).index.shape == (1, 0)


def test_pushes_are_softmax_weights_of_distances() -> None:
    z = _unit(30, 5)
    t_neg = 1.7
    found = hardest_pushes(z, 4, t_neg)
    x = z.double().numpy()
    for i in range(30):
        others = [j for j in range(30) if j != i]
        kernel = {j: np.exp(-t_neg * np.sum((x[i] - x[j]) ** 2)) for j in others}
        total = sum(kernel.values())
        hardest = sorted(others, key=lambda j: -kernel[j])[:4]
        assert found.index[i].tolist() == hardest
        expected = [29 * kernel[j] / total for j in hardest]
        assert np.allclose(found.value[i].numpy(), expected, rtol=1e-4)


def test_pairs_come_once_with_the_larger_value() -> None:
    related = Related(
        torch.tensor([[1, 2], [0, 2], [1, 0]]), torch.tensor([[0.9, 0.1], [0.5, 0.7], [0.8, 0.3]])
    )
    pairs = pairs_of(related)
    assert pairs.index.tolist() == [[0, 1], [1, 2], [0, 2]]
    assert np.allclose(pairs.value, [0.9, 0.8, 0.3])


def test_agreement_is_mutual() -> None:
    neighbours = Related(torch.tensor([[1], [2], [1], [0]]), torch.zeros(4, 1))
    pairs = ImagePairs(np.array([[0, 1], [1, 2], [0, 3]]), np.ones(3))
    assert agree(pairs, neighbours).tolist() == [False, True, False]


def test_lists_show_an_image_once() -> None:
    pairs = ImagePairs(np.array([[0, 1], [0, 2], [2, 3], [4, 5]]), np.array([4.0, 3.0, 2.0, 1.0]))
    assert one_each(pairs, 2).index.tolist() == [[0, 1], [2, 3]]
    assert one_each(pairs, 9).index.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert among(pairs, pairs.where(np.array([0, 1, 0, 0], dtype=bool))).tolist() == [
        False,
        True,
        False,
        False,
    ]


def test_correlation_is_that_of_numpy_and_knows_flat_images() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((4, 50)), rng.random((4, 50))
    b[1] = 0.5 * a[1] + 3
    expected = [np.corrcoef(x, y)[0, 1] for x, y in zip(a, b, strict=True)]
    assert np.allclose(correlation(a, b), expected) and np.isclose(expected[1], 1)
    flat = np.full((2, 50), 7.0)
    assert correlation(flat, np.stack([flat[0], flat[0] + 20])).tolist() == [1.0, 0.0]
