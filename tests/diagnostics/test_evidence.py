"""Label-free figures of features: against their definitions, and where it is known what they must be."""

import numpy as np
import pytest
import torch
from torch import Tensor

from cacr.diagnostics import evidence
from cacr.diagnostics.evidence import (
    FEWEST,
    HALVINGS,
    feature_rank,
    feature_spread,
    half_agreement,
    measure_features,
    neighbour_agreement,
    retrieval,
)
from cacr.randomness import generator
from tests.oracle import evidence as oracle

OF_READ = {
    "view_retrieval",
    "view_rank",
    "strong_retrieval",
    "strong_rank",
    "neighbour_agreement",
    "strong_agreement",
    "half_agreement",
}
OF_ALL = {"feature_rank", "feature_rank_share", "feature_spread"}


def _views(images: int = 72, dim: int = 20, noise: float = 1.0, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Features of images in five views: centre (n, dim), two random and two stronger ones (2, n, dim)."""
    rng = np.random.default_rng(seed)
    centre = rng.normal(size=(images, dim)) * np.linspace(2, 0.5, dim) + 3
    random, strong = (centre + part * noise * rng.normal(size=(2, images, dim)) for part in (1, 2))
    return centre, random, strong


def _tensors(*arrays: np.ndarray) -> tuple[Tensor, ...]:
    return tuple(torch.from_numpy(array) for array in arrays)


def test_every_figure_is_that_of_its_definition() -> None:
    centre, random, strong = _views()
    found = measure_features(*_tensors(centre, random, strong))
    read = oracle.read(centre, centre)
    randoms, strongs = ([oracle.read(centre, view) for view in views] for views in (random, strong))
    seen = np.mean([oracle.retrieval(*randoms), oracle.retrieval(*randoms[::-1])], axis=0)
    hard = np.mean([oracle.retrieval(view, read) for view in strongs], axis=0)
    orders = [torch.randperm(72, generator=generator("halves", number)).numpy() for number in range(HALVINGS)]
    rank = oracle.feature_rank(centre)
    assert found == pytest.approx(
        {
            "view_retrieval": seen[0],
            "view_rank": seen[1],
            "strong_retrieval": hard[0],
            "strong_rank": hard[1],
            "neighbour_agreement": oracle.neighbour_agreement(read, randoms),
            "strong_agreement": oracle.neighbour_agreement(read, strongs),
            "half_agreement": oracle.half_agreement(read, orders),
            "feature_rank": rank,
            "feature_rank_share": rank / 20,
            "feature_spread": oracle.feature_spread(centre),
        }
    )
    assert 0.1 < found["strong_retrieval"] < found["view_retrieval"] < 1  # none is the same for all features
    assert 0.05 < found["strong_agreement"] < found["neighbour_agreement"] < 0.95


def test_more_dimensions_than_images_are_read_alike() -> None:
    """Components come from the smaller matrix then."""
    centre, random, strong = _views(images=70, dim=150)
    found = measure_features(*_tensors(centre, random, strong))
    read = oracle.read(centre, centre)
    hard = np.mean([oracle.retrieval(oracle.read(centre, view), read) for view in strong], axis=0)
    assert (found["strong_retrieval"], found["strong_rank"]) == pytest.approx(tuple(hard))
    assert found["feature_rank"] == pytest.approx(oracle.feature_rank(centre))
    assert found["feature_rank_share"] == pytest.approx(oracle.feature_rank(centre) / 69)


def test_the_reader_makes_scale_shift_and_rotation_of_features_meaningless() -> None:
    centre, random, strong = _views(dim=12)
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(12, 12)))[0] * np.linspace(1, 30, 12)
    first = measure_features(*_tensors(centre, random, strong))
    second = measure_features(*_tensors(*(x @ turn + 100 for x in (centre, random, strong))))
    assert {name: first[name] for name in OF_READ} == pytest.approx({name: second[name] for name in OF_READ})
    assert first["feature_rank"] != pytest.approx(second["feature_rank"], rel=0.01)


def test_images_that_are_always_recognised_score_one() -> None:
    centre, random, strong = _views(noise=0)
    found = measure_features(*_tensors(centre, random, strong))
    for name in OF_READ - {"half_agreement"}:
        assert found[name] == pytest.approx(1), name


def test_far_clusters_are_the_same_in_both_halves() -> None:
    """Ten of them cannot all be among the first ten images of a half; two can be."""
    rng = np.random.default_rng(0)
    places = np.repeat([[1.0, 0.0], [-1.0, 0.0]], 8, axis=0)  # 16 images are divided into two clusters
    apart = torch.from_numpy(places + 0.01 * rng.normal(size=(16, 2)))
    alike = torch.from_numpy(rng.normal(size=(16, 2)))
    assert half_agreement(apart) > 0.6 > half_agreement(alike)


def test_random_features_score_what_guessing_scores() -> None:
    rng, n = np.random.default_rng(0), 400
    found = measure_features(
        *_tensors(rng.normal(size=(n, 80)), rng.normal(size=(2, n, 80)), rng.normal(size=(2, n, 80)))
    )
    guess = sum(1 / rank for rank in range(1, n + 1)) / n
    for kind in ("view", "strong"):
        assert found[f"{kind}_retrieval"] == pytest.approx(1 / n, abs=0.01)
        assert found[f"{kind}_rank"] == pytest.approx(guess, abs=0.01)
    for name in ("neighbour_agreement", "strong_agreement", "half_agreement"):
        assert found[name] == pytest.approx(0, abs=0.05), name
    assert found["feature_spread"] == pytest.approx(1, abs=0.01)
    assert found["feature_rank_share"] > 0.9


@pytest.mark.parametrize("rounding", [0.0, 1e-7], ids=["equal", "rounded"])
def test_collapsed_features_score_what_guessing_scores(rounding: float) -> None:
    """All alike, up to the rounding of float32: whoever breaks ties in favour of the own image finds all of them."""
    rng, n = np.random.default_rng(0), 70
    point = rng.normal(size=30)
    seen = [point * (1 + rounding * rng.normal(size=(*views, n, 30))) for views in ((), (2,), (2,))]
    found = measure_features(*_tensors(*(x.astype(np.float32) for x in seen)))
    guess = sum(1 / rank for rank in range(1, n + 1)) / n
    for kind in ("view", "strong"):
        assert found[f"{kind}_retrieval"] == pytest.approx(1 / n)
        assert found[f"{kind}_rank"] == pytest.approx(guess)
    for name in ("neighbour_agreement", "strong_agreement", "half_agreement", "feature_rank"):
        assert found[name] == pytest.approx(0, abs=1e-9), name
    assert found["feature_spread"] == pytest.approx(0, abs=1e-6)


def test_two_equal_images_are_found_by_half_of_the_draws() -> None:
    x = torch.eye(20, dtype=torch.float64)
    x[1] = x[0]
    found = retrieval(x, x)
    assert found.found == pytest.approx((18 + 2 * 0.5) / 20)
    assert found.rank == pytest.approx((18 + 2 * (1 + 1 / 2) / 2) / 20)
    assert tuple(found) == pytest.approx(oracle.retrieval(x.numpy(), x.numpy()))


def test_neighbours_that_tie_share_the_last_places() -> None:
    """Every image has the same cosine with all others: ten of nineteen by draw, the same ones by chance alone."""
    x = torch.eye(20, dtype=torch.float64)
    assert neighbour_agreement(x, x[None]) == pytest.approx(0, abs=1e-12)


def test_rank_and_spread_where_they_are_known() -> None:
    line = torch.outer(torch.linspace(-1, 1, 20), torch.ones(5)).double() + 4
    assert feature_rank(line) == pytest.approx(1)
    assert feature_spread(torch.eye(7).double()) == pytest.approx(1)
    assert feature_spread(torch.tensor([[1.0, 0.0], [-3.0, 0.0]]).double()) == pytest.approx(2)


@pytest.mark.parametrize("images", [2, FEWEST - 1])
def test_few_images_have_rank_and_spread_alone(images: int) -> None:
    found = measure_features(*_tensors(*_views(images=images)))
    assert found.keys() == OF_ALL and all(np.isfinite(value) for value in found.values())


def test_the_fewest_images_have_all_figures() -> None:
    found = measure_features(*_tensors(*_views(images=FEWEST)))
    assert found.keys() == OF_ALL | OF_READ and all(np.isfinite(value) for value in found.values())


def test_of_many_images_some_are_looked_at_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images lie in the order of their classes: the first ones would be of a few classes."""
    seen = _tensors(*_views(images=2 * FEWEST + 3))
    monkeypatch.setattr(evidence, "MOST", FEWEST + 2)
    assert measure_features(*seen) == measure_features(*(x[..., ::2, :] for x in seen))


def test_features_that_are_not_finite_have_no_figures() -> None:
    centre, random, strong = _tensors(*_views())
    strong[1, 3, 2] = torch.nan
    assert measure_features(centre, random, strong) == {}
