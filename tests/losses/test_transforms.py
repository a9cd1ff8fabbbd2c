"""Objectives inside torch.compile and torch.func."""

import copy
import io
import shutil

import pytest
import torch

from cacr.losses import OBJECTIVES, CACRLoss, queued
from tests.losses.making import embeddings, make_objective, value_and_gradient

BACKENDS = ["dense", "chunked"]
Z = embeddings(3, 6, 16, dtype=torch.float32)


def make(name, backend):
    loss = make_objective(name, 16)
    loss.backend = backend
    return loss


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()


COMPILED = [
    pytest.param(name, backend, marks=() if name == "cacr" else pytest.mark.slow)
    for name in OBJECTIVES.names()
    for backend in BACKENDS
]


@pytest.mark.parametrize(("name", "backend"), COMPILED)
def test_compile_aot_eager(name, backend):
    loss = make(name, backend)
    # LeJEPA draws its directions from a generator of their own, which is made between two graphs.
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=name != "lejepa")
    torch.testing.assert_close(value_and_gradient(compiled, Z), value_and_gradient(loss, Z))


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_compile_with_a_queue(backend):
    loss = make("cacr", backend)
    queue = embeddings(1, 9, 16, seed=1, dtype=torch.float32)[0]

    def step(z):
        return loss(queued(z, z.detach(), queue))

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(value_and_gradient(compiled, Z), value_and_gradient(step, Z))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["cacr", "info_nce"])
def test_compile_inductor(name, backend):
    loss = make(name, backend)
    compiled = torch.compile(loss, fullgraph=True)
    torch.testing.assert_close(value_and_gradient(compiled, Z), value_and_gradient(loss, Z))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", OBJECTIVES.names())
def test_func_grad(name, backend):
    loss = make(name, backend)
    gradient, value = torch.func.grad_and_value(loss)(Z)
    expected, (expected_gradient,) = value_and_gradient(loss, Z)
    torch.testing.assert_close(value.detach(), expected)
    torch.testing.assert_close(gradient.detach(), expected_gradient)


def test_func_hessian_of_the_dense_backend():
    loss = make("cacr", "dense")
    z = embeddings(2, 3, 2)
    hessian = torch.func.hessian(loss)(z)
    step = 1e-5 * embeddings(2, 3, 2, seed=1)
    ahead = value_and_gradient(loss, z + step)[1][0]
    behind = value_and_gradient(loss, z - step)[1][0]
    torch.testing.assert_close(
        (hessian * step).sum((-3, -2, -1)), (ahead - behind) / 2, atol=1e-12, rtol=1e-5
    )


def test_second_order_through_chunks_is_refused_not_wrong():
    loss = CACRLoss()
    loss.backend = "chunked"
    z = Z.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(z), z, create_graph=True)
    with pytest.raises(RuntimeError, match="second-order gradients need the dense backend"):
        gradient.square().sum().backward()


LEARNED = {"clip": {"log_scale"}}
"""Parameters of objectives that have some."""


@pytest.mark.parametrize("name", OBJECTIVES.names())
def test_an_objective_can_be_copied_and_saved(name):
    loss = make(name, "auto")
    with torch.no_grad():
        for parameter in loss.parameters():
            parameter += 0.1 * torch.rand_like(parameter)
    assert torch.equal(copy.deepcopy(loss)(Z), loss(Z))
    assert set(loss.state_dict()) == LEARNED.get(name, set())
    stored = io.BytesIO()
    torch.save(loss.state_dict(), stored)
    stored.seek(0)
    fresh = make(name, "auto")
    fresh.load_state_dict(torch.load(stored, weights_only=True))
    assert torch.equal(fresh(Z), loss(Z))
