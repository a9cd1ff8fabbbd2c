"""Extreme inputs give finite values and gradients, or a clear error."""

import pytest
import torch

from cacr.losses import (
    OBJECTIVES,
    AlignUniformLoss,
    BarlowTwinsLoss,
    CACRLoss,
    CLIPLoss,
    HardNegativeLoss,
    InfoNCELoss,
    SwAVLoss,
    TripletLoss,
    VICRegLoss,
)
from tests.losses.making import embeddings, make_objective, value_and_gradient

RULES = ["same", "cross", "cross_upper", "all"]
LOSSES = [
    *[CACRLoss(t, t, rule) for rule in RULES for t in (1e-4, 1.0, 1e4)],
    *[CACRLoss(t_neg=t, cost=cost, tau_plus=0.1) for cost in ("inner", "rbf") for t in (1.0, 1e4)],
    CACRLoss(cost="rbf", rbf_t=1e4, tau_plus=0.3),
    CACRLoss(neg_grad=False, pos_grad=False, t_pos=1e4, t_neg=1e4),
    CACRLoss(margin=1.0),
    InfoNCELoss(1e-3),
    InfoNCELoss(false_negatives="eliminate", fnc_top=2),
    InfoNCELoss(false_negatives="attract", fnc_top=2),
    AlignUniformLoss(),
    AlignUniformLoss(alpha=1.0),
    AlignUniformLoss(t=1e4),
    HardNegativeLoss(),
    HardNegativeLoss(temperature=1e-3, beta=10.0),
    HardNegativeLoss(tau_plus=0.9),
    CLIPLoss(),
    TripletLoss(),
    TripletLoss(mining="hard"),
    BarlowTwinsLoss(),
    SwAVLoss(),
    *[make_objective(name, 8) for name in OBJECTIVES],
]


def identical():
    return torch.ones(3, 6, 8)


def antipodal():
    z = torch.ones(3, 6, 8)
    z[:, ::2] *= -1
    return z


def antipodal_views():
    z = torch.ones(3, 6, 8)
    z[1] *= -1
    return z


def zeros():
    return torch.zeros(3, 6, 8)


def one_zero():
    z = embeddings(3, 6, 8, dtype=torch.float32)
    z[1, 2] = 0
    return z


def tiny():
    return 1e-18 * embeddings(3, 6, 8, dtype=torch.float32)


def huge():
    return 1e15 * embeddings(3, 6, 8, dtype=torch.float32)


@pytest.mark.parametrize("make", [identical, antipodal, antipodal_views, zeros, one_zero, tiny, huge])
@pytest.mark.parametrize("backend", ["dense", "chunked"])
def test_extreme_embeddings(make, backend):
    for loss in LOSSES:
        if make is huge and isinstance(loss, VICRegLoss):
            continue  # a sum of fourth powers of the lengths: beyond float32 by definition
        loss.backend = backend
        value, (gradient,) = value_and_gradient(loss, make())
        assert torch.isfinite(value), loss
        assert torch.isfinite(gradient).all(), loss


def test_a_zero_vector_gets_no_gradient():
    z = one_zero()
    _, (gradient,) = value_and_gradient(CACRLoss(), z)
    assert (gradient[1, 2] == 0).all()
    assert gradient.norm() > 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", OBJECTIVES.names())
def test_half_precision_embeddings(name, dtype):
    loss = make_objective(name, 16)
    z = embeddings(3, 12, 16, dtype=torch.float32)
    exact, _ = value_and_gradient(loss, z)
    value, (gradient,) = value_and_gradient(loss, z.to(dtype))
    assert value.dtype == torch.float32
    assert gradient.dtype == dtype
    assert torch.isfinite(gradient).all()
    torch.testing.assert_close(value, exact, atol=0.02, rtol=0.02)


@pytest.mark.parametrize("backend", ["dense", "chunked"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", OBJECTIVES.names())
def test_autocast_keeps_softmax_in_float32(name, dtype, backend):
    loss = make_objective(name, 16)
    loss.backend = backend
    z = embeddings(3, 12, 16, dtype=torch.float32)
    exact, (exact_gradient,) = value_and_gradient(loss, z)
    with torch.autocast("cpu", dtype=dtype):
        value, (gradient,) = value_and_gradient(loss, z)
    assert value.dtype == torch.float32
    assert torch.isfinite(gradient).all()
    torch.testing.assert_close(value, exact, atol=0.02, rtol=0.02)
    torch.testing.assert_close(
        gradient, exact_gradient, atol=0.05 * exact_gradient.abs().max().item(), rtol=0
    )


def test_autocast_with_labels():
    z, labels = embeddings(1, 12, 16, dtype=torch.float32)[0], torch.arange(12) % 4
    for loss in (CACRLoss(), InfoNCELoss()):
        exact, (exact_gradient,) = value_and_gradient(lambda x, loss=loss: loss(x, labels), z)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            value, (gradient,) = value_and_gradient(lambda x, loss=loss: loss(x, labels), z)
        assert value.dtype == torch.float32
        torch.testing.assert_close(value, exact, atol=0.02, rtol=0.02)
        torch.testing.assert_close(gradient, exact_gradient, atol=0.05, rtol=0.1)


def test_autocast_products_are_in_its_type():
    """Under bf16 the negatives' cosines are rounded, the positives' are not."""
    z = embeddings(2, 12, 16, dtype=torch.float32)
    exact = CACRLoss().parts(z)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = CACRLoss().parts(z)
    assert rounded["attraction"] == exact["attraction"]
    assert 0 < abs(rounded["repulsion"] - exact["repulsion"]) < 0.02


def test_weights_of_large_scale_pick_the_nearest():
    z = embeddings(2, 6, 3)
    unit = z / z.norm(dim=-1, keepdim=True)
    costs = (2 - 2 * unit @ unit.mT) + 10 * torch.eye(6)
    found = CACRLoss(t_neg=1e8).parts(z)["repulsion"]
    torch.testing.assert_close(found, -costs.amin(-1).mean())
