"""Every objective against loops over its equation: values, and gradients by central differences."""

import numpy as np
import pytest
import torch

from cacr.losses import (
    AdaCLRLoss,
    AlignUniformLoss,
    ASCLLoss,
    BarlowTwinsLoss,
    BYOLLoss,
    CACRLoss,
    CLIPLoss,
    CMCLoss,
    HardNegativeLoss,
    InfoNCELoss,
    LeJEPALoss,
    ReleasedMoCoV3Loss,
    Scores,
    SimSiamLoss,
    SwAVLoss,
    TripletLoss,
    VICRegLoss,
    image_text,
    momentum,
    queued,
    sigreg,
    sinkhorn,
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
    z, prototypes = (oracle.unit(embeddings(n, 6, 4, seed=n).numpy()) for n in (views, 1))
    expected = others.swav(z, prototypes[0, :5], 0.2, 0.1, 3, 2)
    scores = torch.from_numpy(z @ prototypes[0, :5].T)
    found = SwAVLoss(temperature=0.2, epsilon=0.1).of_scores(Scores(scores, assigning=2))["loss"]
    assert found.item() == pytest.approx(expected, abs=1e-10)


def test_assignments_use_every_prototype_equally_and_sum_to_one():
    """Sinkhorn's marginals: after many rounds both, after each round the images' own."""
    scores = embeddings(2, 12, 4)
    few, many = (sinkhorn(scores, 0.5, rounds) for rounds in (1, 200))
    ones = torch.ones(2, 12, dtype=torch.float64)
    torch.testing.assert_close(few.sum(-1), ones)
    torch.testing.assert_close(many.sum(-1), ones)
    torch.testing.assert_close(many.sum(-2), torch.full((2, 4), 12 / 4, dtype=torch.float64))


def test_earlier_projections_take_part_in_the_assignment_alone():
    """A queue's rows are rows of the Sinkhorn problem; the loss is that of the batch's own images."""
    scores, earlier = embeddings(3, 5, 4), embeddings(2, 7, 4, seed=1)
    loss = SwAVLoss(temperature=0.5, epsilon=0.3)
    found = loss.of_scores(Scores(scores, 2, earlier))["loss"]
    targets = sinkhorn(torch.cat([scores[:2], earlier], 1), 0.3, 3)[:, :5]
    predicted = torch.log_softmax(scores / 0.5, -1)
    swapped = [-(targets[v] * predicted[w]).sum(-1).mean() for v in range(2) for w in range(3) if w != v]
    torch.testing.assert_close(found, torch.stack(swapped).mean())


@pytest.mark.parametrize("views", [2, 3])
def test_vicreg(views):
    z = 0.7 * embeddings(views, 6, 3)
    value, (gradient,) = value_and_gradient(VICRegLoss(5.0, 3.0, 2.0), z)
    assert value.item() == pytest.approx(others.vicreg(z.numpy(), (5.0, 3.0, 2.0)), abs=1e-10)
    assert_slopes(lambda x: others.vicreg(x, (5.0, 3.0, 2.0)), z, gradient)


def test_sigreg_is_the_integral_over_all_t():
    """Seventeen points against a fine rule; at embeddings of the size that training brings about."""
    z, directions = embeddings(2, 9, 3), embeddings(1, 3, 4, seed=5)[0]
    directions = directions / directions.norm(dim=0)
    expected = others.sigreg(z.numpy(), directions.numpy())
    assert sigreg(z, directions).item() == pytest.approx(expected, rel=2e-3)


def test_lejepa_draws_the_directions_of_a_step_and_centres_at_global_views():
    z = embeddings(4, 6, 5)
    loss = LeJEPALoss(share=0.25, directions=64)
    values = []
    for step in (0, 7, 7):
        loss.begin_step(step, 10)
        values.append(loss.parts(z, global_views=2))
    assert values[0]["sigreg"] != values[1]["sigreg"] and values[1]["sigreg"] == values[2]["sigreg"]
    centre = z[:2].mean(0)
    torch.testing.assert_close(values[0]["invariance"], (z - centre).square().mean())
    mixed = 0.75 * values[0]["invariance"] + 0.25 * values[0]["sigreg"]
    torch.testing.assert_close(values[0]["loss"], mixed)


def test_lejepa_draws_other_directions_with_another_seed():
    z, losses = embeddings(2, 6, 5), [LeJEPALoss(directions=4) for _ in range(3)]
    losses[2].seed = 1
    values = [loss.parts(z)["sigreg"] for loss in losses]
    assert values[0] == values[1] != values[2]


@pytest.mark.parametrize("neighbours", [0.0, 1.0, 40.0])
def test_ascl(neighbours):
    """In a queue, with local queries; 40 neighbours make labels that are cut at 1."""
    q, k, queue = embeddings(3, 4, 3), embeddings(2, 4, 3, seed=1), embeddings(1, 9, 3, seed=2)[0]
    q, k, queue = (torch.from_numpy(oracle.unit(x.numpy())) for x in (q, k, queue))
    loss = ASCLLoss(0.3, 0.1, neighbours)
    value, (gradient,) = value_and_gradient(lambda x: loss(queued(x, k, queue, in_batch=False)), q)
    positives = [[1], [0], [0, 1]]

    def expected(x):
        return others.ascl(oracle.unit(x), k.numpy(), queue.numpy(), 0.3, 0.1, neighbours, positives)

    assert value.item() == pytest.approx(expected(q.numpy()), abs=1e-10)
    assert_slopes(expected, q, gradient)


@pytest.mark.parametrize("neighbours", [0.0, 1.0, 40.0])
def test_ascl_in_batch_holds_its_labels_alone(neighbours):
    """Keys have gradients there, as positives, as negatives and as neighbours."""
    z = embeddings(3, 4, 3)
    held, loss = oracle.unit(z.numpy()), ASCLLoss(0.3, 0.1, neighbours)
    check(loss, lambda x: others.ascl_in_batch(x, held, 0.3, 0.1, neighbours), z)


def test_second_order_gradients_of_ascl():
    """With so many neighbours that every label is cut at 1, and so a constant."""
    loss = ASCLLoss(0.3, 0.1, 1e9)
    loss.backend = "dense"
    assert torch.autograd.gradgradcheck(loss, (embeddings(2, 3, 2).requires_grad_(),), fast_mode=True)


def test_ascl_without_neighbours_is_moco_v2():
    q, k, queue = embeddings(2, 4, 3), embeddings(2, 4, 3, seed=1), embeddings(1, 9, 3, seed=2)[0]
    pairs = queued(q, k, torch.nn.functional.normalize(queue, dim=1), in_batch=False)
    torch.testing.assert_close(ASCLLoss(0.2, neighbours=0.0)(pairs), InfoNCELoss(0.2)(pairs))


@pytest.mark.parametrize(
    ("shape", "neighbours"),
    [*(((3, 5, 4), n) for n in (0, 1, 3)), *(((2, 2, 3), n) for n in (1, 2, 3, 4))],
)
def test_adaclr(shape, neighbours):
    """With 2 views of 2 images a query sees 2 keys: more neighbours are not to be found among its own views."""
    z = embeddings(*shape)
    check(AdaCLRLoss(0.4, neighbours), lambda x: others.adaclr(x, 0.4, neighbours), z)


def test_adaclr_of_labels_takes_no_key_of_the_own_label():
    """Rows see different numbers of keys, some fewer than there should be neighbours."""

    def reference(z):
        found = []
        for q, same, rest in others.labelled_pairs(z[0], LABELS.tolist()):
            found.append(others.adaclr_of(q, same, rest, 0.4, 7))
        return sum(found) / len(found)

    loss = AdaCLRLoss(0.4, 7)
    check(loss, reference, embeddings(1, 9, 3), lambda z: loss(z[0], LABELS))


def test_adaclr_without_neighbours_is_supcon_of_the_own_views():
    library = pytest.importorskip("pytorch_metric_learning.losses")
    z = embeddings(3, 5, 4)
    theirs = library.SupConLoss(temperature=0.4)(z.flatten(0, 1), torch.arange(5).repeat(3))
    torch.testing.assert_close(AdaCLRLoss(0.4, 0)(z), theirs)


def test_adaclr_lets_neighbours_join_after_their_share_of_a_run():
    z = embeddings(2, 6, 4)
    loss = AdaCLRLoss(0.4, 2, neighbours_from=0.5)
    values = []
    for step in (4, 5):
        loss.begin_step(step, 10)
        values.append(loss(z))
    torch.testing.assert_close(torch.stack(values), torch.stack([AdaCLRLoss(0.4, n)(z) for n in (0, 2)]))


@pytest.mark.parametrize("grad", [False, True])
def test_attraction_anchored_at_keys(grad):
    """Two global keys, two global and two local queries: a key has three candidates, a query one or two."""
    q, k = embeddings(4, 3, 3), embeddings(2, 3, 3, seed=1)
    loss = CACRLoss(t_pos=1.5, pos_grad=grad, pi_anchor="key", repulsion=0.0)
    value, (gradient,) = value_and_gradient(lambda x: loss(momentum(x, k, "cross")), q)
    expected = others.attraction_at_keys(oracle.unit(q.numpy()), oracle.unit(k.numpy()), 1.5)
    assert value.item() == pytest.approx(expected, abs=1e-10)
    if grad:
        unit_keys = oracle.unit(k.numpy())
        assert_slopes(lambda x: others.attraction_at_keys(oracle.unit(x), unit_keys, 1.5), q, gradient)


def test_the_anchor_changes_nothing_where_every_key_has_one_query():
    z = embeddings(2, 5, 3)
    torch.testing.assert_close(CACRLoss(pi_anchor="key")(z), CACRLoss()(z))


def test_local_crops_are_queries_only_unless_they_are_asked_to_be_keys():
    z = embeddings(4, 5, 3)
    for negatives in ("cross", "all"):
        queries_only = CACRLoss(negatives=negatives).parts(z, global_views=2)
        torch.testing.assert_close(
            queries_only, CACRLoss(negatives=negatives).parts(momentum(z, z[:2], negatives))
        )
        keys_too = CACRLoss(negatives=negatives, local_keys=True).parts(z, global_views=2)
        torch.testing.assert_close(keys_too, CACRLoss(negatives=negatives).parts(z))
    with pytest.raises(ValueError, match="local crops have none"):
        CACRLoss().parts(z, global_views=2)


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
