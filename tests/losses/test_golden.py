"""Golden values from an independent oracle, to 1e-9."""

import pytest
import torch

from cacr.losses import (
    AlignUniformLoss,
    CACRLoss,
    CMCLoss,
    HardNegativeLoss,
    InfoNCELoss,
    ReleasedMoCoV3Loss,
    momentum,
    queued,
    released_small_scale,
)
from cacr.losses.measures import conditional_entropy
from tests.losses.making import golden, golden_queue


def attraction(views, **settings):
    return CACRLoss(**settings).parts(golden(views))["attraction"]


def repulsion(views, **settings):
    return CACRLoss(**settings).parts(golden(views))["repulsion"]


def moco_v3(temperature, cost):
    z = golden(3)
    return ReleasedMoCoV3Loss(temperature, cost)(momentum(z, z[[2, 1]]))


def moco_v2(in_batch):
    z = golden(3)
    return CACRLoss()(queued(z, z, golden_queue(), in_batch=in_batch))


VALUES = {
    "V=2 CA, t+=1": (lambda: attraction(2), 0.0781558992),
    "V=2 CA, t+=7": (lambda: attraction(2, t_pos=7.0), 0.0781558992),
    "V=2 CR cross_upper": (lambda: repulsion(2, negatives="cross_upper"), -0.5095039483),
    "V=2 CR cross": (lambda: repulsion(2, negatives="cross"), -0.5324255025),
    "V=2 CR same": (lambda: repulsion(2, negatives="same"), -0.5812276537),
    "V=2 CR uniform": (lambda: repulsion(2, negatives="cross_upper", neg_weights="uniform"), -1.3851865123),
    "V=2 CR flipped": (lambda: repulsion(2, negatives="cross_upper", neg_weights="flipped"), -2.3388395227),
    "V=2 CACR cross_upper": (lambda: CACRLoss(negatives="cross_upper")(golden(2)), -0.4313480490),
    "V=3 CA": (lambda: attraction(3), 0.1637598150),
    "V=3 CA uniform": (lambda: attraction(3, pos_weights="uniform"), 0.1539670398),
    "V=3 CA flipped": (lambda: attraction(3, pos_weights="flipped"), 0.1441742646),
    "V=3 CR cross_upper": (lambda: repulsion(3, negatives="cross_upper"), -0.5139597385),
    "V=3 CR cross": (lambda: repulsion(3, negatives="cross"), -0.5477538586),
    "V=3 CR same": (lambda: repulsion(3, negatives="same"), -0.6101321039),
    "V=3 CR uniform": (lambda: repulsion(3, negatives="cross_upper", neg_weights="uniform"), -1.4737191418),
    "V=3 CR flipped": (lambda: repulsion(3, negatives="cross_upper", neg_weights="flipped"), -2.4907540761),
    "V=3 CACR cross_upper": (lambda: released_small_scale()(golden(3)), -0.3501999234),
    "V=3 CR-RBF": (lambda: repulsion(3, negatives="cross_upper", cost="rbf", t_neg=0.9), -0.9321759936),
    "NT-Xent tau=.19": (lambda: InfoNCELoss(0.19)(golden(2)), 0.7454552483),
    "NT-Xent tau=.5": (lambda: InfoNCELoss(0.5)(golden(2)), 1.2088260031),
    "InfoNCE cross-view": (lambda: InfoNCELoss(0.19, negatives="cross")(golden(2)), 0.4818778773),
    "AU": (lambda: AlignUniformLoss()(golden(2)), -1.5671593834),
    "HN-CL tau_plus=.1": (lambda: HardNegativeLoss(tau_plus=0.1)(golden(2)), 1.4386458610),
    "HN-CL tau_plus=0": (lambda: HardNegativeLoss(tau_plus=0.0)(golden(2)), 1.5038543034),
    "CMC": (lambda: CMCLoss(0.19)(golden(3)), 0.5989843832),
    "margin .5": (lambda: CACRLoss(margin=0.5, negatives="cross_upper")(golden(2)), 0.1651835865),
    "margin 1.5": (lambda: CACRLoss(margin=1.5, negatives="cross_upper")(golden(2)), 1.0686519510),
    "H(X-|X)": (lambda: conditional_entropy(golden(2), 2.0, "cross_upper"), 0.4759668612),
    "MoCo-v2, queue and batch": (lambda: moco_v2(True), -0.3645747668),
    "MoCo-v2, queue": (lambda: moco_v2(False), -0.6032010132),
    "released MoCo-v3 rbf, T=1": (lambda: moco_v3(1.0, "rbf"), 1.9413612797),
    "released MoCo-v3 rbf, T=.2": (lambda: moco_v3(0.2, "rbf"), 0.1726601045),
    # The released code sums over the four images.
    "released MoCo-v3 euclidean, T=1": (lambda: 4 * moco_v3(1.0, "euclidean"), -2.0708624720),
    "released MoCo-v3 euclidean, T=.2": (lambda: 4 * moco_v3(0.2, "euclidean"), -0.9228631609),
}


@pytest.mark.parametrize("name", VALUES)
def test_golden_value(name):
    compute, expected = VALUES[name]
    assert compute().item() == pytest.approx(expected, abs=1e-9)


def test_golden_values_do_not_depend_on_the_length_of_the_embeddings():
    z = golden(3) * torch.rand(3, 4, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert CACRLoss()(z).item() == pytest.approx(CACRLoss()(golden(3)).item(), abs=1e-12)
