"""t- that follows the spread: against the recursion in NumPy, and when it may move."""

import copy
import io

import pytest
import torch

from cacr.losses import CACRLoss, queued
from cacr.losses.engine import spread
from tests.losses.making import embeddings, value_and_gradient
from tests.oracle import cacr as oracle

RULE = {name.lower(): getattr(spread, name) for name in ("GROWTH", "DECLINE", "MARGIN", "LEAST")}


def make(**options):
    return CACRLoss(**{"t_neg": 4.0, "t_neg_schedule": "spread", **options}).double()


def batches(count=60):
    """Batches whose views come nearer, and at the end go apart again: t- has to rise, and to fall."""
    for number in range(count):
        z = embeddings(1, 5, 3, seed=number)
        apart = 2.0 if number > 40 else 1.5 - number / 40
        yield z + apart * embeddings(3, 5, 3, seed=100 + number)


@pytest.mark.parametrize("backend", ["dense", "chunked"])
@pytest.mark.parametrize("options", [{}, {"cost": "inner"}, {"attraction": 0.8, "repulsion": 0.9}])
def test_t_neg_is_that_of_the_recursion(backend, options):
    loss = make(**options)
    loss.backend = backend
    factors = options.get("attraction", 1.0), options.get("repulsion", 1.0)

    def distances(z, t):
        z = oracle.unit(z.numpy())
        return factors[0] * oracle.attraction(z), -factors[1] * oracle.repulsion(z, t)

    expected = oracle.followed_spread(batches(), 4.0, distances, **RULE)
    found = [loss.parts(z)["t_neg"].item() for z in batches()]
    assert [*found, loss.spread.t_now.item()] == pytest.approx(expected, rel=1e-5)
    assert max(found) > 10 * found[0] and min(found[-5:]) < max(found)  # it rose, and it fell


def test_value_and_gradient_are_those_of_the_t_neg_that_it_names():
    z, loss = embeddings(3, 6, 4), make()
    for _ in range(3):
        t = loss.parts(z)["t_neg"].item()
        loss.spread.t_now.fill_(t)  # one that the call below starts from, too
        for backend in ("dense", "chunked"):
            loss.eval().backend = backend
            fixed = CACRLoss(t_neg=t)
            torch.testing.assert_close(
                value_and_gradient(loss, z), value_and_gradient(fixed, z), atol=1e-7, rtol=1e-6
            )
        loss.train().spread.t_now.mul_(5)


def test_with_a_queue():
    keys, queue = oracle.unit(embeddings(3, 4, 3, seed=1)), oracle.unit(embeddings(1, 7, 3, seed=2)[0])
    loss, z = make(), embeddings(3, 4, 3)
    parts = loss.parts(queued(z, torch.tensor(keys), torch.tensor(queue)))
    expected = oracle.queued(oracle.unit(z.numpy()), keys, queue, t_neg=parts["t_neg"].item())
    assert parts["loss"].item() == pytest.approx(expected)


def test_it_moves_in_training_mode_alone_and_in_no_copy():
    near = embeddings(1, 6, 3).repeat(2, 1, 1)
    loss = make()
    start = loss.spread.t_now.item()
    loss.eval()(near)
    copy.deepcopy(loss).train()(near)
    loss.train().of(queued(near, near, near[0]))  # as the loss at a point is asked for
    assert loss.spread.t_now.item() == start
    loss(near)
    assert loss.spread.t_now.item() > start


def test_a_loaded_objective_goes_on_where_the_saved_one_was():
    loss, fresh = make(), make()
    for z in batches(20):
        loss(z)
    stored = io.BytesIO()
    torch.save(loss.state_dict(), stored)
    stored.seek(0)
    fresh.load_state_dict(torch.load(stored, weights_only=True))
    for z in batches(5):
        parts, others = loss.parts(z), fresh.parts(z)
        assert all(torch.equal(parts[name], others[name]) for name in parts)


def test_compiled_it_moves_alike():
    torch._dynamo.reset()
    loss = make()
    compiled = torch.compile(copy.deepcopy(loss), backend="aot_eager", fullgraph=True)
    for z in batches(4):
        torch.testing.assert_close(value_and_gradient(compiled, z), value_and_gradient(loss, z))
        assert compiled.spread.t_now.item() == pytest.approx(loss.spread.t_now.item())


@pytest.mark.parametrize("options", [{"cost": "rbf"}, {"neg_weights": "uniform"}, {"neg_weights": "flipped"}])
def test_refused_where_t_neg_does_nothing_or_cannot_follow(options):
    with pytest.raises(ValueError, match="t_neg_schedule must be 'constant'"):
        make(**options)


def test_a_constant_t_neg_has_no_state():
    loss = CACRLoss()
    assert not loss.state_dict() and "t_neg" not in loss.parts(embeddings(2, 4, 3))
