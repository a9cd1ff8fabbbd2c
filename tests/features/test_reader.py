"""Readers: the principal components of scikit-learn and NumPy, and features of which little is known."""

import math

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from cacr.encoders import Reader, ReaderKind
from cacr.features.encode import make_rows
from cacr.features.reader import IMAGES_PER_COMPONENT, LEAST_IMAGES, MOST_IMAGES, SMALLEST, fit_reader


def features(count: int, dim: int, *, seed: int = 0) -> torch.Tensor:
    """Far from the origin, with variances that fall, in directions of no special kind."""
    rng = np.random.default_rng(seed)
    turned, _ = np.linalg.qr(rng.normal(size=(dim, dim)))
    values = rng.normal(size=(count, dim)) * 3 / np.arange(1, dim + 1) ** 0.7
    return torch.from_numpy((values @ turned + 5 * rng.normal(size=dim)).astype(np.float32))


def cosines(x: torch.Tensor | np.ndarray) -> np.ndarray:
    x = np.asarray(x, dtype=np.float64)
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    return x @ x.T


@pytest.mark.parametrize(("count", "dim"), [(300, 20), (100, 250), (MOST_IMAGES, 9)])
def test_white_is_whitening_by_scikit_learn(count: int, dim: int) -> None:
    x = features(count, dim)
    components = min(8, count // IMAGES_PER_COMPONENT)
    expected = PCA(components, whiten=True, svd_solver="full").fit_transform(x.double().numpy())
    reader = fit_reader(x, "white", components)
    read = reader(x)
    assert (reader.kind, reader.images, reader.dim) == ("white", count, components)
    np.testing.assert_allclose(cosines(read), cosines(expected), atol=1e-4)
    np.testing.assert_allclose(np.abs(read.numpy()), np.abs(expected), atol=1e-3)
    assert reader.map is not None
    largest = reader.map.gather(0, reader.map.abs().argmax(dim=0)[None])
    assert bool((largest > 0).all())


@pytest.mark.parametrize(("count", "dim"), [(300, 20), (100, 250)])
def test_half_white_is_between_centred_and_white(count: int, dim: int) -> None:
    x = features(count, dim)
    centred = x.double().numpy() - x.double().numpy().mean(axis=0)
    variances, directions = np.linalg.eigh(np.cov(centred, rowvar=False))
    variances, directions = variances[::-1][:8], directions[:, ::-1][:, :8]
    expected = centred @ directions / variances**0.25
    read = fit_reader(x, "half_white", 8)(x)
    np.testing.assert_allclose(np.abs(read.numpy()), np.abs(expected), atol=1e-3)
    np.testing.assert_allclose(read.double().square().mean(dim=0), variances**0.5, rtol=0.02)


def test_centred_and_raw() -> None:
    x = features(100, 7)
    read = fit_reader(x, "centred")(x)
    np.testing.assert_allclose(read, x.double() - x.double().mean(dim=0), atol=1e-5)
    assert fit_reader(x, "raw")(x) is x


def test_directions_that_hardly_vary_are_left_out() -> None:
    x = features(400, 30)
    flat = x.double() @ torch.diag(torch.tensor([1.0] * 4 + [0.1 * math.sqrt(SMALLEST)] * 26).double())
    assert fit_reader(flat.float(), "white", 20).dim == 4
    few = fit_reader(x[:LEAST_IMAGES], "white", 30)
    assert few.dim == LEAST_IMAGES // IMAGES_PER_COMPONENT


@pytest.mark.parametrize("kind", ["centred", "half_white", "white"])
def test_features_of_which_little_is_known(kind: ReaderKind) -> None:
    for count in (1, 2, LEAST_IMAGES - 1):
        x = features(count, 300)
        assert fit_reader(x, kind).kind == "raw" and fit_reader(x, kind)(x) is x
    same = torch.full((200, 5), 0.1)
    read = fit_reader(same, kind)(same)
    assert read.shape[0] == 200 and float(read.abs().max()) < 1e-6
    assert fit_reader(torch.full((200, 5), math.nan), kind).kind == "raw"
    one = features(1, 5).repeat(200, 1) * torch.linspace(1, 2, 200)[:, None]
    assert bool(torch.isfinite(fit_reader(one, kind)(one)).all())


def test_features_in_a_file_are_read_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    x = features(2 * MOST_IMAGES, 6)
    whole = fit_reader(x, "white")
    assert whole.images == MOST_IMAGES
    np.testing.assert_allclose(whole(x).double().square().mean(dim=0), np.ones(6), atol=0.1)
    stored = make_rows(*x.shape, streamed=True)
    stored[:] = x
    monkeypatch.setattr("cacr.features.reader.BLOCK", 600)
    monkeypatch.setattr("cacr.encoders.reader.BLOCK", 600)
    blocks = fit_reader(stored, "white")
    out = make_rows(len(x), blocks.dim, streamed=True)
    assert blocks(stored, out) is out
    np.testing.assert_allclose(out, whole(x), atol=1e-4)


def test_reading_the_same_features_again_gives_the_same() -> None:
    x = features(100, 40)
    first, again = fit_reader(x), fit_reader(x.clone())
    assert isinstance(first, Reader) and torch.equal(first(x), again(x))
