"""Measures of a batch against their definitions."""

import math

import pytest
import torch

from cacr.losses import CACRLoss, in_batch, queued
from cacr.losses.engine.pairs import unit
from cacr.losses.measures import (
    alignment,
    conditional_entropy,
    maximum_entropy,
    mutual_information,
    negative_weights,
    positive_weights,
    reversed_negatives,
    reversed_positives,
    uniformity,
)
from tests.losses.making import embeddings
from tests.oracle import cacr as oracle
from tests.oracle import others

Z = embeddings(3, 5, 4)
UNIT = oracle.unit(Z)


@pytest.mark.parametrize(("rule", "count"), [("same", 4), ("cross", 4), ("cross_upper", 4), ("all", 12)])
def test_entropy_and_information(rule, count):
    entropy = conditional_entropy(Z, 3.0, rule).item()
    assert entropy == pytest.approx(oracle.entropy(UNIT, 3.0, rule), abs=1e-12)
    assert maximum_entropy(Z, rule).item() == pytest.approx(math.log(count), abs=1e-12)
    assert mutual_information(Z, 3.0, rule).item() == pytest.approx(math.log(count) - entropy, abs=1e-12)


def test_alignment_and_uniformity():
    assert alignment(Z).item() == pytest.approx(others.align(UNIT), abs=1e-12)
    assert alignment(Z, alpha=1.0).item() == pytest.approx(others.align(UNIT, 1.0), abs=1e-12)
    assert uniformity(Z).item() == pytest.approx(others.uniform(UNIT), abs=1e-12)


@pytest.mark.parametrize("rule", ["same", "cross", "all"])
def test_weights_make_the_loss(rule):
    pi_pos, pi_neg = positive_weights(Z, 1.5), negative_weights(Z, 2.5, rule)
    pairs = in_batch(Z, rule)
    parts = CACRLoss(1.5, 2.5, rule).parts(Z)
    torch.testing.assert_close((pi_pos * (2 - 2 * pairs.positives)).sum(-1).mean(), parts["attraction"])
    costs = 2 - 2 * pairs.queries @ pairs.negatives[0].vectors.mT
    torch.testing.assert_close(-(pi_neg * costs).sum(-1).mean(), parts["repulsion"])
    torch.testing.assert_close(pi_neg.sum(-1), torch.ones(pi_neg.shape[:2], dtype=torch.float64))
    own = (pi_neg == 0).sum(-1)
    assert (own == (3 if rule == "all" else 1)).all()


def test_weights_of_ragged_positives_leave_out_those_that_are_absent():
    pairs = in_batch(Z, "all", key_views=(0, 1))
    weights = positive_weights(pairs)
    assert (weights[0, :, 1] == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 5, dtype=torch.float64))


def test_reversed_pairs_by_hand():
    """Costs (.2, .5, 1, 1.9, 2.2) and t- = 2: the gradient attracts the last three negatives."""
    costs = torch.tensor([0.2, 0.5, 1.0, 1.9, 2.2], dtype=torch.float64)
    angle = torch.arccos(1 - costs / 2)
    queue = torch.stack([angle.cos(), angle.sin()], -1)
    query = torch.tensor([1.0, 0.0], dtype=torch.float64).expand(2, 1, 2)
    pairs = queued(query, query, queue, in_batch=False)
    assert reversed_negatives(pairs, 2.0).item() == pytest.approx(3 / 5)
    leaf = queue.clone().requires_grad_()
    CACRLoss(attraction=0.0)(queued(query, query, leaf, in_batch=False)).backward()
    # A negative that is attracted is pulled towards the query, against its gradient, along the circle.
    tangent = torch.stack([-angle.sin(), angle.cos()], -1)
    assert ((leaf.grad * tangent).sum(-1) > 0).tolist() == [False, False, True, True, True]


def test_no_pair_is_reversed_where_all_are_equally_far():
    simplex = torch.eye(5, dtype=torch.float64).expand(3, -1, -1)
    assert reversed_negatives(simplex, 50.0) == 0
    assert reversed_positives(simplex, 50.0) == 0


def test_measures_carry_no_gradient():
    z = Z.clone().requires_grad_()
    for measure in (conditional_entropy, mutual_information, alignment, uniformity, reversed_negatives):
        assert not measure(z).requires_grad


def test_measures_are_the_same_block_by_block(monkeypatch):
    z = unit(embeddings(2, 40, 4))
    whole = conditional_entropy(z), reversed_negatives(z), uniformity(z)
    monkeypatch.setattr("cacr.losses.engine.chunked._BLOCK_CPU", (7, 9))
    monkeypatch.setattr("cacr.losses.engine.reductions._DENSE_LIMIT_CPU", 0)
    torch.testing.assert_close((conditional_entropy(z), reversed_negatives(z), uniformity(z)), whole)
