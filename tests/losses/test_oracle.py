"""Every objective against loops over its equation: values, and gradients by central differences."""

import numpy as np
import pytest
import torch

from cacr.losses import (
    AlignUniformLoss,
    BarlowTwinsLoss,
    BYOLLoss,
    CACRLoss,
    CLIPLoss,
    CMCLoss,
    HardNegativeLoss,
    InfoNCELoss,
    ReleasedMoCoV3Loss,
    SimSiamLoss,
    SwAVLoss,
    TripletLoss,
    image_text,
    momentum,
    queued,
)
from tests.losses.making import assert_slopes, embeddings, value_and_gradient
from tests.oracle import cacr as oracle
from tests.oracle import others

RULES = ["same", "cross", "cross_upper", "all"]
SHAPES = [(2, 2, 2), (2, 5, 3), (3, 4, 2), (5, 3, 4)]


def check(loss, reference, z, call=None, tolerance=1e-10):
    """Value and gradient of ``loss(z)``, or ``call(z)``, against a NumPy function of unit vectors."""
    expected = reference(oracle.unit(z.numpy()))
    for backend in ("dense", "chunked"):
        loss.backend = backend
        value, (gradient,) = value_and_gradient(call or loss, z)
        assert value.item() == pytest.approx(expected, abs=tolerance)
        assert_slopes(lambda x: reference(oracle.unit(x)), z, gradient)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks smaller than the batches, so that every chunked result is put together from several."""
    monkeypatch.setattr("cacr.losses.engine.chunked._BLOCK_CPU", (3, 4))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rule", RULES)
def test_cacr(shape, rule):
    def reference(z):
        return 0.7 * oracle.attraction(z, 1.3) + 1.9 * oracle.repulsion(z, 2.5, rule)

    loss = CACRLoss(t_pos=1.3, t_neg=2.5, negatives=rule, attraction=0.7, repulsion=1.9)
    check(loss, reference, embeddings(*shape))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("pos", ["softmax", "uniform", "flipped"])
@pytest.mark.parametrize("neg", ["softmax", "uniform", "flipped"])
def test_cacr_weights(rule, pos, neg):
    def reference(z):
        return oracle.attraction(z, 1.0, pos) + oracle.repulsion(z, 2.0, rule, neg)

    check(CACRLoss(negatives=rule, pos_weights=pos, neg_weights=neg), reference, embeddings(3, 3, 2))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("tau_plus", [0.0, 0.1])
def test_cacr_inner_cost_keeps_weights_from_distances(rule, tau_plus):
    def reference(z):
        attraction = oracle.attraction(z, 1.0, cost_kind="inner")
        return attraction + oracle.repulsion(z, 2.0, rule, cost_kind="inner", tau_plus=tau_plus)

    check(CACRLoss(negatives=rule, cost="inner", tau_plus=tau_plus), reference, embeddings(3, 4, 3))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("weights", ["softmax", "uniform", "flipped"])
@pytest.mark.parametrize("tau_plus", [0.0, 0.1])
def test_cacr_rbf_cost(rule, weights, tau_plus):
    def reference(z):
        return oracle.attraction(z) + oracle.rbf_repulsion(z, 0.9, 1.5, rule, weights, tau_plus)

    loss = CACRLoss(cost="rbf", t_neg=0.9, rbf_t=1.5, negatives=rule, neg_weights=weights, tau_plus=tau_plus)
    check(loss, reference, embeddings(3, 4, 2))


@pytest.mark.parametrize("rule", RULES)
def test_cacr_margin(rule):
    check(
        CACRLoss(margin=0.3, negatives=rule),
        lambda z: oracle.hinge(z, 0.3, rule=rule),
        embeddings(3, 4, 3, seed=1),
    )


@pytest.mark.parametrize("rule", RULES)
def test_cacr_debiased(rule):
    def reference(z):
        return oracle.attraction(z) + oracle.repulsion(z, 2.0, rule, tau_plus=0.2)

    check(CACRLoss(tau_plus=0.2, negatives=rule), reference, embeddings(3, 4, 3))


@pytest.mark.parametrize("in_batch", [True, False])
def test_cacr_with_a_queue(in_batch):
    keys, queue = oracle.unit(embeddings(3, 4, 3, seed=1)), oracle.unit(embeddings(1, 7, 3, seed=2)[0])
    loss = CACRLoss()
    check(
        loss,
        lambda z: oracle.queued(z, keys, queue, in_batch=in_batch),
        embeddings(3, 4, 3),
        lambda z: loss(queued(z, torch.tensor(keys), torch.tensor(queue), in_batch=in_batch)),
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rule", RULES)
def test_info_nce(shape, rule):
    check(InfoNCELoss(0.3, rule), lambda z: others.info_nce(z, 0.3, rule), embeddings(*shape))


@pytest.mark.parametrize("kind", ["eliminate", "attract"])
@pytest.mark.parametrize("views", [2, 3])
def test_false_negative_cancellation(kind, views):
    loss = InfoNCELoss(0.3, false_negatives=kind, fnc_top=2, fnc_threshold=0.5)
    z = embeddings(views, 5, 3, seed=3)
    check(loss, lambda x: others.false_negative_cancellation(x, 0.3, kind, 2, 0.5), z)
    assert abs(loss(z) - InfoNCELoss(0.3)(z)) > 1e-3  # some were found


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("alpha", [1.0, 2.0, 3.0])
def test_align_uniform(shape, alpha):
    def reference(z):
        return 3.0 * others.align(z, alpha) + 0.5 * others.uniform(z, 1.5)

    check(AlignUniformLoss(alpha=alpha, t=1.5, align=3.0, uniform=0.5), reference, embeddings(*shape))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tau_plus", [0.0, 0.1, 0.6])
def test_hard_negative(shape, tau_plus):
    def reference(z):
        return others.hard_negative(z, 0.4, 1.5, tau_plus)

    check(HardNegativeLoss(0.4, 1.5, tau_plus), reference, embeddings(*shape))


@pytest.mark.parametrize("shape", SHAPES)
def test_cmc(shape):
    check(CMCLoss(0.3), lambda z: others.info_nce(z, 0.3, "cross"), embeddings(*shape))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("mining", ["none", "hard"])
def test_triplet(rule, mining):
    loss = TripletLoss(margin=0.8, mining=mining, negatives=rule)
    check(loss, lambda z: others.triplet(z, 0.8, mining, rule), embeddings(3, 5, 3, seed=4))


def test_byol_and_simsiam():
    check(BYOLLoss(), lambda z: others.byol(z, z), embeddings(3, 4, 3))
    check(SimSiamLoss(), lambda z: others.byol(z, z) / 2 - 1, embeddings(3, 4, 3))


def test_byol_with_targets():
    targets = oracle.unit(embeddings(2, 4, 3, seed=1))
    loss = BYOLLoss()
    check(
        loss,
        lambda z: others.byol(z, targets),
        embeddings(2, 4, 3),
        lambda z: loss(momentum(z, torch.tensor(targets))),
    )


def test_clip():
    texts = oracle.unit(embeddings(1, 5, 3, seed=1)[0])
    loss = CLIPLoss(temperature=0.2).double()
    check(
        loss,
        lambda z: others.clip(z[0], texts, 0.2),
        embeddings(1, 5, 3),
        lambda z: loss(image_text(z[0], torch.tensor(texts))),
        1e-6,  # the parameter was made as a float32 logarithm
    )


def test_clip_learns_its_scale():
    z = embeddings(2, 5, 3)
    loss = CLIPLoss(temperature=0.2).double()
    loss.backend = "chunked"
    loss(z[0], z[1]).backward()
    unit = oracle.unit(z)
    step = 1e-5

    def at(log_scale):
        return others.clip(unit[0], unit[1], float(np.exp(-log_scale)))

    log_scale = loss.log_scale.item()
    numeric = (at(log_scale + step) - at(log_scale - step)) / (2 * step)
    assert loss.log_scale.grad.item() == pytest.approx(numeric, abs=1e-8)


@pytest.mark.parametrize("views", [2, 3])
def test_barlow_twins(views):
    z = embeddings(views, 6, 3)
    value, (gradient,) = value_and_gradient(BarlowTwinsLoss(0.02), z)
    assert value.item() == pytest.approx(others.barlow_twins(z.numpy(), 0.02), abs=1e-10)
    assert_slopes(lambda x: others.barlow_twins(x, 0.02), z, gradient)


@pytest.mark.parametrize("views", [2, 4])
def test_swav(views):
    z = embeddings(views, 6, 4)
    torch.manual_seed(0)
    loss = SwAVLoss(dim=4, count=5, temperature=0.2, epsilon=0.1).double()
    prototypes = oracle.unit(loss.prototypes.detach().numpy())
    expected = others.swav(oracle.unit(z.numpy()), prototypes, 0.2, 0.1, 3, 2)
    assert loss(z).item() == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("kind", ["rbf", "euclidean"])
def test_released_moco_v3(kind):
    q, k = embeddings(4, 3, 3), embeddings(2, 3, 3, seed=1)
    loss = ReleasedMoCoV3Loss(0.5, kind)
    expected = others.released_moco_v3(oracle.unit(q), oracle.unit(k), 0.5, kind)
    assert loss(momentum(q, k)).item() == pytest.approx(expected, abs=1e-10)


LABELS = torch.tensor([3, 1, 3, 0, 1, 3, 7, 1, 7])


def test_labels_cacr():
    def reference(z):
        found = list(others.labelled_pairs(z[0], LABELS.tolist()))
        ca = [oracle.attraction_of(q, same) for q, same, _ in found]
        cr = [oracle.repulsion_of(q, other) for q, _, other in found]
        return sum(ca) / len(ca) + sum(cr) / len(cr)

    loss = CACRLoss()
    check(loss, reference, embeddings(1, 9, 3), lambda z: loss(z[0], LABELS))


def test_labels_info_nce():
    def reference(z):
        found = [
            others.cross_entropy(q, p, other, 0.3)
            for q, same, other in others.labelled_pairs(z[0], LABELS.tolist())
            for p in same
        ]
        return sum(found) / len(found)

    loss = InfoNCELoss(0.3)
    check(loss, reference, embeddings(1, 9, 3), lambda z: loss(z[0], LABELS))


@pytest.mark.parametrize("backend", ["dense", "chunked"])
@pytest.mark.parametrize(
    "settings", [{}, {"cost": "rbf", "negatives": "all"}, {"cost": "inner", "tau_plus": 0.1}]
)
def test_gradcheck(backend, settings):
    loss = CACRLoss(**settings)
    loss.backend = backend
    assert torch.autograd.gradcheck(loss, (embeddings(3, 4, 2).requires_grad_(),), fast_mode=True)


@pytest.mark.parametrize("loss", [CACRLoss(), InfoNCELoss(), HardNegativeLoss()])
def test_second_order_gradients_of_the_dense_backend(loss):
    loss.backend = "dense"
    z = embeddings(2, 3, 2).requires_grad_()
    assert torch.autograd.gradgradcheck(loss, (z,), fast_mode=True)


def test_second_order_gradients_with_labels():
    loss = CACRLoss()
    loss.backend = "dense"
    z = embeddings(1, 9, 2)[0].requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: loss(x, LABELS), (z,), fast_mode=True)
