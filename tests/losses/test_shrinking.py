"""Shrinking is downhill while attraction exceeds repulsion, and what forbids it: free points, no network."""

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from cacr.losses import CACRLoss, InfoNCELoss, Scores, SwAVLoss

SCRIPT = Path(__file__).parents[2] / "docs" / "figures" / "shrinking.py"


@pytest.fixture(scope="module")
def points() -> ModuleType:
    """The script that draws the page's figure: its points are those that are trained here."""
    pytest.importorskip("matplotlib")
    sys.path.insert(0, str(SCRIPT.parent))  # it shares colours with its neighbour
    try:
        spec = importlib.util.spec_from_file_location("shrinking", SCRIPT)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(SCRIPT.parent))
    return module


@pytest.mark.parametrize("seed", [0, 1])
def test_p21_free_points_shrink_unless_t_neg_follows_or_they_are_standardised(
    points: ModuleType, seed: int
) -> None:
    constant = points.train_points(CACRLoss(t_neg=4), seed=seed)
    followed = points.train_points(CACRLoss(t_neg=4, t_neg_schedule="spread"), seed=seed)
    standardised = points.train_points(CACRLoss(t_neg=4), standardised=True, seed=seed)
    assert constant[0] == followed[0] > 1.3
    assert constant[-1] < 0.6 < 0.9 < min(followed)
    assert min(standardised) > 1.9


def test_p21_above_zero_smaller_distances_have_a_smaller_loss(points: ModuleType) -> None:
    z = torch.nn.functional.normalize(sum(points.start()), dim=-1)
    loss = CACRLoss(t_neg=4)(z).item()
    assert loss > 0.2
    assert points.shrunk_loss(z, 1.0, 4.0) == pytest.approx(loss)
    for s in (0.9, 0.5, 0.1):
        assert points.shrunk_loss(z, s, 4.0) < s * loss  # near negatives weigh less: downhill all the more


def test_p21_values_at_a_point() -> None:
    point = torch.ones(3, 8, 4, dtype=torch.float64)
    assert CACRLoss(t_neg=4)(point).item() == pytest.approx(0, abs=1e-12)
    assert InfoNCELoss(0.2, "cross")(point).item() == pytest.approx(math.log(7 + 1))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("common", [0.0, 1.5])
@pytest.mark.parametrize("agreement", [0.15, 0.4])
@pytest.mark.parametrize("temperature", [0.1, 0.3])
def test_p26_assignments_shrink_while_views_agree_less_than_epsilon_over_two_temperatures(
    temperature: float, agreement: float, common: float, seed: int
) -> None:
    """Small normal scores, with a part that all images have in common; at a point the loss is ln(prototypes)."""
    images, prototypes, epsilon = 512, 128, 0.05
    drawn = torch.randn(
        3, images, prototypes, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )
    other = agreement * drawn[0] + math.sqrt(1 - agreement**2) * drawn[1]
    shared = common * drawn[2, :1]  # Sinkhorn's normalisation removes it, the softmax does not
    scores = 0.02 * (
        torch.stack([drawn[0], other]) + shared
    )  # their spread does not matter while it is small
    agreement /= 1 + common**2  # covariance between views, without the common part, over the whole variance
    objective = SwAVLoss(temperature, epsilon)
    losses = [objective.of_scores(Scores(s * scores, 2))["loss"].item() for s in (1.0, 0.5, 0.0)]
    assert losses[2] == pytest.approx(math.log(prototypes))
    if agreement < epsilon / (2 * temperature):
        assert losses == sorted(losses, reverse=True)  # smaller scores, smaller loss
    else:
        assert losses == sorted(losses)
