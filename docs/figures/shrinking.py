"""Draws shrinking.svg of docs/explanation/objective.md beside this file: `python docs/figures/shrinking.py`.

``tests/losses/test_shrinking.py`` trains the same points.
"""

import torch
from matplotlib import pyplot as plt
from theory import INK, PALE, PULL, PUSH, save
from torch import Tensor

from cacr.losses import CACRLoss
from cacr.losses.engine.pairs import unit

VIEWS, IMAGES, DIM = 5, 32, 16
STEPS, RATE = 100, 2.0


def distance_of_images(z: Tensor) -> float:
    """The mean ||x - y||^2 of two images in the same view; z is (views, images, dim) of any length."""
    mean = unit(z).mean(1)
    count = z.shape[1]
    return float((2 * count / (count - 1) * (1 - mean.square().sum(-1))).mean())


def start(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Points (views, images, dim) and an offset (dim,): two views of an image are about as far apart as two images."""
    draw = torch.Generator().manual_seed(seed)
    images = 0.3 * torch.randn(1, IMAGES, DIM, generator=draw, dtype=torch.float64)
    points = images + torch.randn(VIEWS, IMAGES, DIM, generator=draw, dtype=torch.float64)
    return points, torch.full((DIM,), 0.6, dtype=torch.float64)


def train_points(loss: CACRLoss, *, standardised: bool = False, seed: int = 0) -> list[float]:
    """Gradient descent on points alone; the mean distance of two images before the first step and after each.

    The parameters are the points, and an offset that is added to all of them: what a network has in common for all
    images, such as the last bias of its head.

    Args:
        loss: of the points.
        standardised: subtract from every coordinate its mean over the images of a view and divide it by its
            standard deviation, as batch norm without weights does.
        seed: of the points.
    """
    parameters, found = start(seed), []
    for step in range(STEPS + 1):
        points, offset = (p.detach().requires_grad_() for p in parameters)
        z = points + offset
        if standardised:
            z = (z - z.mean(1, keepdim=True)) / z.std(1, keepdim=True)
        found.append(distance_of_images(z.detach()))
        if step < STEPS:
            gradients = torch.autograd.grad(loss(z), (points, offset))
            parameters = (points - RATE * gradients[0], offset - RATE * gradients[1])
    return found


def shrunk_loss(z: Tensor, s: float, t_neg: float) -> float:
    """CACR's loss where all squared distances of unit vectors z are s times what they are; t+ is 1."""
    d = s * torch.cdist(z, z).square()
    d = d[~torch.eye(IMAGES, dtype=torch.bool).expand_as(d)].reshape(VIEWS, IMAGES, -1)
    own = s * torch.cdist(z.transpose(0, 1), z.transpose(0, 1)).square()
    own = own[~torch.eye(VIEWS, dtype=torch.bool).expand_as(own)].reshape(IMAGES, VIEWS, -1)
    attracted = (torch.softmax(own, -1) * own).sum(-1).mean()
    return float(attracted - (torch.softmax(-t_neg * d, -1) * d).sum(-1).mean())


def shrinking_figure() -> None:
    """The loss of the points at the start when all distances are multiplied by s, and what becomes of them."""
    _, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2))
    points, offset = start()
    z, shares = unit(points + offset), [n / 50 for n in range(51)]
    for t_neg, views, text, colour in (
        (4.0, z, "views not found yet, $t^- = 4$", PUSH),
        (0.04, z, "the same, $t^- = 0.04$", INK),
        (4.0, unit(z + 2 * z.mean(0)), "views found, $t^- = 4$", PULL),
    ):
        left.plot(shares, [shrunk_loss(views, s, t_neg) for s in shares], color=colour, label=text)
    left.axhline(0, color=PALE, lw=0.7)
    left.set(
        xlabel="s: all distances times s; 0 is a point", ylabel="loss", title="above 0, shrinking is downhill"
    )
    left.legend(frameon=False, loc="upper left")
    for text, colour, loss, standardised in (
        ("batch norm without weights", PULL, CACRLoss(t_neg=4), True),
        ("$t^-$ follows the spread", INK, CACRLoss(t_neg=4, t_neg_schedule="spread"), False),
        ("$t^- = 4$", PUSH, CACRLoss(t_neg=4), False),
    ):
        right.plot(train_points(loss, standardised=standardised), color=colour, label=text)
    right.set(xlabel="step", ylabel="distance of two images", ylim=(0, 2.2), title="free points")
    right.legend(frameon=False, loc="center right", bbox_to_anchor=(1, 0.4))
    save("shrinking.svg")


if __name__ == "__main__":
    shrinking_figure()
