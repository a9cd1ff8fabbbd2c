"""Train many linear classifiers on the same features at once: scores, gradients and steps of SGD."""

from typing import NamedTuple

import torch
from torch import Tensor

MOMENTUM = 0.9


class Heads(NamedTuple):
    """H linear classifiers, which are trained in place.

    Attributes:
        weight: (d, H, C).
        bias: (H, C).
    """

    weight: Tensor
    bias: Tensor

    def logits(self, x: Tensor) -> Tensor:
        """Scores (n, H, C) of features (n, d), by one matrix product."""
        return (x @ self.weight.flatten(1)).view(len(x), *self.bias.shape) + self.bias

    def gradients(self, x: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
        """D loss / d weight and d loss / d bias from features (n, d) and d loss / d logits (n, H, C)."""
        return (x.T @ slope.flatten(1)).view_as(self.weight), slope.sum(dim=0)


def slopes(logits: Tensor, labels: Tensor) -> Tensor:
    """D loss / d logits (n, H, C) of each image: probability - truth.

    Of cross-entropy for labels (n,), of binary cross-entropy for labels (n, C) of zeros and ones.
    """
    if labels.ndim == 2:
        return logits.sigmoid() - labels[:, None]
    slope = logits.softmax(dim=2)
    slope[torch.arange(len(labels)), :, labels] -= 1
    return slope


def nesterov_step(value: Tensor, gradient: Tensor, inertia: Tensor, lr: Tensor) -> None:
    """One step with Nesterov momentum, in place: v <- m v + g, w <- w - lr (g + m v)."""
    inertia.mul_(MOMENTUM).add_(gradient)
    value -= lr * (gradient + MOMENTUM * inertia)


def momentum_step(value: Tensor, gradient: Tensor | None, inertia: Tensor, lr: Tensor, decay: Tensor) -> None:
    """One step with momentum and weight decay, in place: v <- m v + decay w + g, w <- w - lr v."""
    inertia.mul_(MOMENTUM).addcmul_(decay, value)
    if gradient is not None:
        inertia.add_(gradient)
    value.addcmul_(lr, inertia, value=-1)
