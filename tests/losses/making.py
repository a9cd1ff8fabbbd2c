"""Embeddings for the tests, and derivatives of the oracles."""

import inspect

import numpy as np
import torch

from cacr.losses import OBJECTIVES


def make_objective(name, dim, **settings):
    """A registered objective, for embeddings of this dimension where it has to know."""
    kind = OBJECTIVES[name]
    return kind(**({"dim": dim} if "dim" in inspect.signature(kind).parameters else {}), **settings)


def embeddings(views, images, dim, seed=0, dtype=torch.float64):
    """Vectors of any length, (views, images, dim)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(views, images, dim, generator=generator, dtype=torch.float64).to(dtype)


def golden(views):
    """The input of the golden values: angle 0.7 i + 0.2 v + 0.05 i v on the circle, four images."""
    v, i = torch.meshgrid(torch.arange(views), torch.arange(4), indexing="ij")
    v, i = v.double(), i.double()
    angle = 0.7 * i + 0.2 * v + 0.05 * i * v
    return torch.stack([angle.cos(), angle.sin()], -1)


def golden_queue():
    angle = torch.tensor([2.5, 3.1, 4.0, 5.2, 5.9], dtype=torch.float64)
    return torch.stack([angle.cos(), angle.sin()], -1)


def assert_slopes(function, z, gradient, step=1e-5):
    """The gradient against central differences of a NumPy function, along four random directions."""
    rng = np.random.default_rng(0)
    z, gradient = z.numpy(), gradient.numpy()
    for _ in range(4):
        direction = rng.standard_normal(z.shape)
        numeric = (function(z + step * direction) - function(z - step * direction)) / (2 * step)
        np.testing.assert_allclose((gradient * direction).sum(), numeric, atol=1e-7, rtol=1e-6)


def value_and_gradient(function, *tensors):
    """A scalar function's value and its gradients."""
    tensors = [t.detach().clone().requires_grad_() for t in tensors]
    value = function(*tensors)
    return value.detach(), torch.autograd.grad(value, tensors)
