"""Draws repulsion.svg of docs/explanation/objective.md beside this file: `python docs/figures/repulsion.py`.

``tests/losses/test_lemmas.py`` moves the same points.
"""

import math
from dataclasses import dataclass

import torch
from matplotlib import pyplot as plt
from theory import INK, PALE, PULL, PUSH, save
from torch import Tensor

from cacr.losses import CACRLoss
from cacr.losses.engine.pairs import unit
from cacr.losses.measures import conditional_entropy, mutual_information, uniformity

IMAGES, DIM, T_NEG = 64, 8, 2.0
STEPS, RATE = 150, 1.28


@dataclass(frozen=True)
class Tracked:
    """What is measured before the first step and after each.

    Attributes:
        repulsion: L_CR.
        entropy: H(X-|X), in nats.
        information: I(X;X-), in nats.
        uniformity: ln mean exp(-2 ||x - y||^2) of two images.
        points: where they end, (images, dim), unit.
    """

    repulsion: list[float]
    entropy: list[float]
    information: list[float]
    uniformity: list[float]
    points: Tensor


def start(kind: str, seed: int = 0, images: int = IMAGES, dim: int = DIM) -> Tensor:
    """Points (images, dim) on the sphere.

    Args:
        kind: ``spread``: uniform on the sphere; ``clusters``: four narrow ones of equal size; ``point``: all near one.
        seed: of the points.
        images: how many there are.
        dim: of the space.
    """
    draw = torch.Generator().manual_seed(seed)
    noise = torch.randn(images, dim, generator=draw, dtype=torch.float64)
    axes = torch.eye(dim, dtype=torch.float64)
    if kind == "clusters":
        return unit(axes[torch.arange(images) % 4] + 0.1 * noise)
    return unit(axes[0] + 0.05 * noise) if kind == "point" else unit(noise)


def repel(points: Tensor, t_neg: float = T_NEG, steps: int = STEPS) -> Tracked:
    """Gradient descent on the points alone under L_CR; after each step they are put back on the sphere."""
    loss = CACRLoss(t_neg=t_neg, attraction=0.0)
    rows: list[tuple[float, float, float, float]] = []
    for step in range(steps + 1):
        free = points.detach().requires_grad_()
        z = unit(free).expand(2, -1, -1)  # the objective wants two views; here they are one
        value = loss(z)
        measured = (conditional_entropy(z, t_neg), mutual_information(z, t_neg), uniformity(z))
        rows.append((value.item(), *(each.item() for each in measured)))
        if step < steps:
            (gradient,) = torch.autograd.grad(value, free)
            points = unit(free.detach() - RATE * gradient)
    cr, entropy, information, uniform = (list(column) for column in zip(*rows, strict=True))
    return Tracked(cr, entropy, information, uniform, points)


def repulsion_figure() -> None:
    """L_CR, H and I, and uniformity of the three starts, against steps."""
    _, axes = plt.subplots(1, 3, figsize=(9, 3))
    for kind, text, colour in (
        ("spread", "from uniform points", PULL),
        ("clusters", "from four clusters", INK),
        ("point", "from nearly one point", PUSH),
    ):
        found = repel(start(kind))
        axes[0].plot(found.repulsion, color=colour, label=text)
        axes[1].plot(found.information, color=colour)
        axes[1].plot(found.entropy, color=colour, ls="--")
        axes[2].plot(found.uniformity, color=colour)
    axes[1].axhline(math.log(IMAGES - 1), color=PALE, lw=0.7)
    axes[0].set(xlabel="step", title="$L_{CR}$")
    axes[1].set(xlabel="step", ylim=(0, 4.4), title="$I(X;X^-)$, dashed: $H(X^-|X)$")
    axes[2].set(xlabel="step", title="uniformity")
    axes[0].legend(frameon=False)
    save("repulsion.svg")


if __name__ == "__main__":
    repulsion_figure()
