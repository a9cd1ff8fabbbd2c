"""Neighbours: exact ones against a literal ranking, approximate ones against exact ones."""

import sys

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from cacr.errors import MissingExtraError
from cacr.features.index import Neighbours


def _vectors(count: int, dim: int = 16) -> torch.Tensor:
    return normalize(torch.randn(count, dim, generator=torch.Generator().manual_seed(0)), dim=1)


def test_the_nearest_others_are_those_of_a_literal_ranking() -> None:
    x = _vectors(50)
    x[7] = x[3]  # equal images: each is the other's nearest, and none its own
    cosine, number = Neighbours(x).of_all(5)
    products = x.double().numpy() @ x.double().numpy().T
    np.fill_diagonal(products, -np.inf)
    np.testing.assert_allclose(cosine.numpy(), np.sort(products, axis=1)[:, ::-1][:, :5], atol=1e-6)
    assert number[7, 0] == 3 and number[3, 0] == 7
    assert all(own not in row for own, row in enumerate(number.tolist()))
    assert Neighbours(x[:3]).of_all(5)[1].shape == (3, 2)


def test_an_index_finds_nearly_all_of_them() -> None:
    pytest.importorskip("usearch")
    x = _vectors(2000)
    exact, near = Neighbours(x), Neighbours(x, exact_up_to=100)
    assert exact.exact and not near.exact
    (truth_cosine, truth), (cosine, number) = exact.of_all(10), near.of_all(10)
    assert all(own not in row for own, row in enumerate(number.tolist()))
    recall = (number[:, :, None] == truth[:, None, :]).any(dim=2).float().mean()
    assert recall > 0.95
    assert (cosine <= truth_cosine + 1e-5).all()
    assert (cosine.diff(dim=1) <= 0).all()


def test_without_the_package_what_to_install_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'cacr\[index\]'"):
        Neighbours(_vectors(10), exact_up_to=5)
