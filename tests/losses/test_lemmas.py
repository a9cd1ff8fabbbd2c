"""The paper's lemmas that are more than identities: limits, optimisation, transport (docs/explanation/objective.md)."""

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

from cacr.losses import CACRLoss, InfoNCELoss, queued
from cacr.losses.engine.pairs import unit
from cacr.losses.measures import positive_weights
from tests.losses.making import value_and_gradient

SCRIPT = Path(__file__).parents[2] / "docs" / "figures" / "repulsion.py"


def _batch(views: int, images: int, dim: int, seed: int = 0) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    centre = torch.randn(1, images, dim, generator=draw, dtype=torch.float64)
    return unit(centre + 0.7 * torch.randn(views, images, dim, generator=draw, dtype=torch.float64))


@pytest.mark.parametrize("t_pos", [0.3, 1.0, 5.0])
def test_p22_lemma_1_with_the_inner_product_as_cost(t_pos: float) -> None:
    """L_CA is the mean of -x.x+ pi+ / p, with p = 1 / K, and the alignment of Wang and Isola if and only if pi+ = p."""
    z = _batch(5, 12, 6)
    others = [[w for w in range(5) if w != v] for v in range(5)]
    cosine = torch.stack([torch.stack([(z[v] * z[w]).sum(-1) for w in o], -1) for v, o in enumerate(others)])
    ratio = positive_weights(z, t_pos) / (1 / 4)
    found = CACRLoss(t_pos=t_pos, cost="inner").parts(z)["attraction"].item()
    assert found == pytest.approx((-cosine * ratio).mean().item(), abs=1e-12)
    alignment = -cosine.mean().item()
    assert CACRLoss(cost="inner", pos_weights="uniform").parts(z)["attraction"].item() == pytest.approx(
        alignment, abs=1e-12
    )
    assert found > alignment + 0.01 * t_pos  # costs differ, so does pi+ from p
    # Positives on a ring around the query are equally far from it: pi+ = p at any t+.
    ring = torch.tensor(
        [[1.0, 0, 0], [0.6, 0.8, 0], [0.6, -0.8, 0], [0.6, 0, 0.8]], dtype=torch.float64
    ).unsqueeze(1)
    pairs = queued(ring[:1], ring[1:], ring[0], in_batch=False, key_views=(1, 2, 3))
    assert CACRLoss(t_pos=t_pos, cost="inner").parts(pairs)["attraction"].item() == pytest.approx(-0.6)


@pytest.mark.parametrize("tau", [0.19, 0.5])
def test_p23_lemma_3_contrastive_loss_less_ln_m_becomes_alignment_plus_uniformity(tau: float) -> None:
    """With queues that grow, against both terms where the expectation over negatives is an integral.

    Of uniform negatives on the sphere in three dimensions E exp(x.x- / tau) = tau sinh(1 / tau), for every query.
    """
    z = _batch(2, 64, 3)
    draw = torch.Generator().manual_seed(1)
    alignment = -(z[0] * z[1]).sum(-1).mean().item() / tau
    limit = alignment + math.log(tau * math.sinh(1 / tau))
    gaps = []
    for count in (16, 256, 4096, 65_536):
        queue = unit(torch.randn(count, 3, generator=draw, dtype=torch.float64))
        loss = InfoNCELoss(tau)(queued(z, z, queue, in_batch=False)).item()
        gaps.append(abs(loss - math.log(count) - limit))
    assert gaps[-1] < 0.01 < gaps[0]
    assert gaps[-1] < 0.1 * gaps[0]


@pytest.fixture(scope="module")
def points() -> ModuleType:
    """The script that draws the page's figure."""
    pytest.importorskip("matplotlib")
    sys.path.insert(0, str(SCRIPT.parent))  # it shares colours with its neighbour
    try:
        spec = importlib.util.spec_from_file_location("repulsion", SCRIPT)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["repulsion"] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(SCRIPT.parent))
    return module


@pytest.mark.parametrize("seed", [0, 1])
def test_p24_lemma_2_as_an_optimisation(points: ModuleType, seed: int) -> None:
    """Spread points lose information as they repel each other; points near one another gain it first."""
    ends = {}
    for kind in ("spread", "clusters", "point"):
        found = points.repel(points.start(kind, seed))
        assert all(
            h + i == pytest.approx(math.log(points.IMAGES - 1), abs=1e-9)
            for h, i in zip(found.entropy, found.information, strict=True)
        )
        assert found.repulsion[-1] < found.repulsion[0] - 0.15
        assert found.uniformity[-1] < found.uniformity[0] - 0.15
        ends[kind] = found
    for kind in ("spread", "clusters"):  # where the lemma says the right thing
        assert ends[kind].information[-1] < ends[kind].information[0] - 0.15
    assert ends["point"].information[0] < 0.01 < 0.3 < ends["point"].information[-1]  # and where it does not
    for name in ("repulsion", "information", "uniformity"):
        values = [getattr(found, name)[-1] for found in ends.values()]
        assert max(values) - min(values) < 0.1  # the end does not depend on the start


def test_p24_few_points_become_a_simplex_without_information(points: ModuleType) -> None:
    """Up to d + 1 points can be equally far from each other: I is 0, and L_CR -2 M / (M - 1), its least value."""
    found = points.repel(points.start("spread", images=9, dim=8), steps=600)
    assert found.repulsion[-1] == pytest.approx(-2 * 9 / 8, abs=1e-3)
    assert found.information[-1] == pytest.approx(0, abs=1e-3)
    cosines = found.points @ found.points.T
    off = cosines[~torch.eye(9, dtype=torch.bool)]
    assert off.min().item() == pytest.approx(-1 / 8, abs=0.03)
    assert off.max().item() == pytest.approx(-1 / 8, abs=0.03)


def _transport(sources: Tensor, targets: Tensor, t_neg: float) -> Tensor:
    """-E c under the conditional transport of sources to targets, (images, dim) each; nobody goes to itself."""
    cost = (sources[:, None] - targets[None]).square().sum(-1)
    own = torch.eye(len(cost), dtype=torch.bool)
    plan = (-t_neg * cost).masked_fill(own, -torch.inf).softmax(-1)
    return -(plan * cost).sum(-1).mean()


@pytest.mark.parametrize("t_neg", [0.5, 3.0])
def test_p25_forward_and_reverse_transport_are_equal_with_negatives_of_the_same_view(t_neg: float) -> None:
    z = _batch(2, 10, 4)

    def forward(x: Tensor) -> Tensor:
        return torch.stack([_transport(view, view, t_neg) for view in x]).mean()

    def reverse(x: Tensor) -> Tensor:
        """Every negative chooses among the queries."""
        costs = (x[:, :, None] - x[:, None]).square().sum(-1)
        own = torch.eye(x.shape[1], dtype=torch.bool)
        plan = (-t_neg * costs).masked_fill(own, -torch.inf).softmax(1)
        return -(plan * costs).sum(1).mean()

    ours = value_and_gradient(CACRLoss(t_neg=t_neg, attraction=0.0), z)
    for direction in (forward, reverse):
        value, (gradient,) = value_and_gradient(direction, z)
        assert value.item() == pytest.approx(ours[0].item(), abs=1e-12)
        # through unit vectors: the objective's own gradient is along the sphere
        along = gradient - (gradient * z).sum(-1, keepdim=True) * z
        own = ours[1][0] - (ours[1][0] * z).sum(-1, keepdim=True) * z
        torch.testing.assert_close(along, own, atol=1e-10, rtol=1e-8)


def test_p25_between_views_the_directions_differ_and_cross_has_both() -> None:
    z, t_neg = _batch(2, 10, 4), 3.0
    there, back = _transport(z[0], z[1], t_neg).item(), _transport(z[1], z[0], t_neg).item()
    found = {
        rule: CACRLoss(t_neg=t_neg, negatives=rule).parts(z)["repulsion"].item()  # type: ignore[arg-type]
        for rule in ("cross_upper", "cross")
    }
    assert abs(there - back) > 1e-3
    assert found["cross_upper"] == pytest.approx(there, abs=1e-12)
    assert found["cross"] == pytest.approx((there + back) / 2, abs=1e-12)
