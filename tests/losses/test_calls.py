"""How objectives are called, made and refused; every registered one."""

import copy
import inspect

import pytest
import torch

from cacr.errors import UserError
from cacr.losses import (
    OBJECTIVES,
    AlignUniformLoss,
    CACRLoss,
    HardNegativeLoss,
    InfoNCELoss,
    NotFiniteError,
    Ring,
    TripletLoss,
    in_batch,
    momentum,
    queued,
    released_moco_v2,
)
from cacr.losses.engine.false_negatives import find_false_negatives
from tests.losses.making import embeddings, value_and_gradient

NAMES = OBJECTIVES.names()
OF_PAIRS = [name for name in NAMES if "pairs" in OBJECTIVES[name].takes]
PAPER = {"cacr", "info_nce", "align_uniform", "hard_negative", "cmc", "triplet", "clip", "byol", "simsiam"}
PAPER |= {"swav", "barlow_twins", "released_moco_v3", "ascl", "adaclr", "vicreg", "lejepa"}
Z = embeddings(3, 6, 128, dtype=torch.float32)


def test_every_objective_of_the_paper_is_there():
    assert set(NAMES) >= PAPER


@pytest.mark.parametrize("name", NAMES)
def test_every_objective_is_a_scalar_with_parts_and_gradients(name):
    loss = OBJECTIVES[name]()
    value, (gradient,) = value_and_gradient(loss, Z)
    assert value.shape == ()
    assert gradient.shape == Z.shape
    assert torch.isfinite(gradient).all()
    assert gradient.norm() > 0
    parts = loss.parts(Z)
    torch.testing.assert_close(parts["loss"], value)
    assert all(part.shape == () for part in parts.values())


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_has_a_type_and_a_default(name):
    for parameter in inspect.signature(OBJECTIVES[name]).parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty
        assert parameter.default is not inspect.Parameter.empty


@pytest.mark.parametrize("name", NAMES)
def test_every_summary_is_one_sentence(name):
    summary = OBJECTIVES.summaries()[name]
    assert summary.endswith(".")
    assert len(summary) < 110


@pytest.mark.parametrize("name", NAMES)
def test_two_tensors_are_two_views(name):
    loss = OBJECTIVES[name]()
    torch.testing.assert_close(loss(Z[0], Z[1]), loss(Z[:2]))


@pytest.mark.parametrize("name", OF_PAIRS)
def test_embeddings_are_pairs_of_the_batch(name):
    loss = OBJECTIVES[name]()
    rule = loss.negatives
    torch.testing.assert_close(loss(momentum(Z, Z, rule)), loss(Z))


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(OF_PAIRS)))
def test_objectives_of_whole_batches_refuse_pairs(name):
    with pytest.raises(TypeError, match="not pairs"):
        OBJECTIVES[name]()(momentum(Z, Z))
    with pytest.raises(TypeError, match="not pairs"):
        OBJECTIVES[name]()(Z[0], torch.arange(len(Z[0])) % 2)


@pytest.mark.parametrize("name", NAMES)
def test_blocks_give_the_value_and_gradient_of_the_matrix(name, monkeypatch):
    monkeypatch.setattr("cacr.losses.engine.chunked._BLOCK_CPU", (3, 4))
    found = []
    for backend in ("dense", "chunked"):
        loss = OBJECTIVES[name]()
        loss.load_state_dict(copy.deepcopy(found[0][0]) if found else loss.state_dict())
        loss.backend = backend
        found.append((loss.state_dict(), value_and_gradient(loss.double(), Z.double())))
    torch.testing.assert_close(found[1][1], found[0][1], rtol=1e-10, atol=1e-12)


WRONG = [
    (CACRLoss, {"t_pos": 0.0}, "t_pos must be a number above 0, not 0.0"),
    (CACRLoss, {"t_neg": -1.0}, "t_neg must be a number above 0"),
    (CACRLoss, {"t_neg": float("nan")}, "t_neg must be a number above 0"),
    (CACRLoss, {"rbf_t": 0.0}, "rbf_t must be"),
    (CACRLoss, {"attraction": -1.0}, "attraction must be 0 or above"),
    (CACRLoss, {"repulsion": -1.0}, "repulsion must be 0 or above"),
    (CACRLoss, {"tau_plus": 1.0}, "tau_plus must be at least 0 and below 1"),
    (CACRLoss, {"negatives": "other"}, "negatives must be one of same, cross, cross_upper, all, not 'other'"),
    (CACRLoss, {"cost": "l1"}, "cost must be one of euclidean, inner, rbf"),
    (CACRLoss, {"pos_weights": "x"}, "pos_weights must be one of softmax, uniform, flipped"),
    (CACRLoss, {"neg_weights": "x"}, "neg_weights must be one of"),
    (CACRLoss, {"cost": "rbf", "margin": 1.0}, "margin must be None with cost 'rbf'"),
    (InfoNCELoss, {"temperature": 0.0}, "temperature must be"),
    (InfoNCELoss, {"false_negatives": "x"}, "false_negatives must be one of keep, eliminate, attract"),
    (InfoNCELoss, {"false_negatives": "attract", "negatives": "cross"}, "false_negatives must be 'keep'"),
    (InfoNCELoss, {"fnc_top": 0}, "fnc_top must be"),
    (AlignUniformLoss, {"alpha": 0.0}, "alpha must be"),
    (AlignUniformLoss, {"uniform": -1.0}, "uniform must be"),
    (HardNegativeLoss, {"beta": -1.0}, "beta must be 0 or above"),
    (TripletLoss, {"mining": "soft"}, "mining must be one of none, hard"),
    (TripletLoss, {"margin": 0.0}, "margin must be"),
]


@pytest.mark.parametrize(("kind", "settings", "message"), WRONG)
def test_wrong_settings_name_the_argument_and_what_is_allowed(kind, settings, message):
    with pytest.raises(ValueError, match=message):
        kind(**settings)


def test_a_nan_row_is_named():
    z = embeddings(2, 5, 3)
    z[1, 3, 0] = float("nan")
    for name in ("cacr", "info_nce", "align_uniform", "hard_negative"):
        with pytest.raises(
            NotFiniteError, match=r"1 of the embeddings are NaN or infinite, the first at \[1, 3\]"
        ):
            OBJECTIVES[name]()(z)
    assert issubclass(NotFiniteError, UserError)


def test_false_negatives_need_keys_that_all_views_share():
    with pytest.raises(ValueError, match="one set of keys that all views share"):
        InfoNCELoss(false_negatives="attract")(momentum(Z, Z, "cross"))
    queue = torch.nn.functional.normalize(embeddings(1, 9, 128, seed=1, dtype=torch.float32)[0], dim=1)
    with pytest.raises(ValueError, match="without a queue"):
        InfoNCELoss(false_negatives="attract")(queued(Z, Z, queue))


def test_false_negatives_of_a_queue_alone_are_found():
    queue = torch.nn.functional.normalize(embeddings(1, 9, 128, seed=1, dtype=torch.float32)[0], dim=1)
    queue[0] = torch.nn.functional.normalize(Z[0, 0], dim=0)  # only the first image has one
    pairs = queued(Z, Z, queue, in_batch=False)
    kept, found = (InfoNCELoss(false_negatives=kind, fnc_threshold=0.99) for kind in ("keep", "attract"))
    assert find_false_negatives(pairs, 1, 0.99).tolist() == [[0], *[[-1]] * (Z.shape[1] - 1)]
    assert found(pairs) != kept(pairs)


def test_released_moco_v2_holds_what_the_code_holds():
    loss = released_moco_v2(t_neg=1.5)
    assert (loss.pos_grad, loss.neg_grad, loss.queue_grad, loss.t_neg) == (False, True, False, 1.5)


def test_agrees_with_pytorch_metric_learning():
    library = pytest.importorskip("pytorch_metric_learning.losses")
    z = embeddings(1, 20, 8)[0]
    labels = torch.randint(0, 5, (20,), generator=torch.Generator().manual_seed(0))
    theirs = library.NTXentLoss(temperature=0.2)(z, labels)
    torch.testing.assert_close(InfoNCELoss(0.2)(z, labels), theirs, atol=1e-6, rtol=1e-6)


def test_agrees_with_lightly():
    library = pytest.importorskip("lightly.loss")
    z = embeddings(2, 20, 8)
    torch.testing.assert_close(InfoNCELoss(0.2)(z), library.NTXentLoss(temperature=0.2)(z[0], z[1]))


def test_objectives_that_look_for_single_keys_refuse_keys_that_are_elsewhere():
    spread = in_batch(Z, ring=Ring(0, (Z.shape[1], 3)))
    for loss in (TripletLoss(mining="hard"), InfoNCELoss(false_negatives="eliminate")):
        with pytest.raises(ValueError, match="in one place"):
            loss(spread)
    for backend in ("dense", "attention"):
        loss = CACRLoss()
        loss.backend = backend
        with pytest.raises(ValueError, match="distributed over a ring"):
            loss(spread)
