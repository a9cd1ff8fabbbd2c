"""A linear classifier on cached features; several learning rates are trained at once."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from cacr.evaluation.data.splits import folds
from cacr.evaluation.data.task import LabelledFeatures, Task
from cacr.evaluation.engine.draws import over_draws
from cacr.evaluation.options import LinearSettings
from cacr.evaluation.registry import PROTOCOLS, Score
from cacr.evaluation.results.metrics import METRICS
from cacr.features.encode import make_rows
from cacr.randomness import generator

ENOUGH_VALIDATION = 500
"""Validation labels after which no further fold is tried: a standard error is then two points at most."""

FEW_PRODUCTS = 30_000_000
"""Multiplications of a step below which a second thread costs more than it saves."""

MOMENTUM, BLOCK = 0.9, 16_384

QUIET = 0.1
"""Share of the mean variance that is added to every variance: what hardly varies is not blown up to noise."""


@PROTOCOLS.register("linear")
def linear(task: Task, settings: LinearSettings) -> Score:
    """A linear classifier on cached features; the learning rate is chosen on validation folds."""

    def measure(train: LabelledFeatures, seed: int) -> tuple[float, dict[str, Any]]:
        classifier = fit_linear(
            train.values,
            train.labels,
            classes=task.data.classes,
            settings=settings,
            seed=seed,
            streamed=train.streamed,
        )
        value = METRICS[task.data.metric](classifier.logits(task.test.values), task.test.labels)
        validation = {str(lr): share for lr, share in classifier.validation.items()}
        return value, {"lr": classifier.lr, "validation": validation}

    return over_draws(task, settings.labels_per_class, settings.draws, measure)


@dataclass(frozen=True)
class Scaling:
    """Features as the classifier sees them: batch norm without parameters, of the training features.

    y = (x - mean) / sqrt(variance + 0.1 mean variance), then divided by one number so that the training
    features have a mean square norm of 1: so one grid of learning rates serves features of any dimension.

    With fewer training features than dimensions y is expressed in a basis of their span. Gradient descent
    from zero never leaves it, so this changes no prediction; it saves nearly all the work with few labels.
    """

    mean: Tensor
    scale: Tensor
    basis: Tensor | None

    @classmethod
    def of(cls, train: Tensor) -> Self:
        """The scaling of training features (n, d)."""
        mean, variance = train.mean(dim=0), train.var(dim=0, correction=0)
        scale = (variance + QUIET * variance.mean()).sqrt()
        scale = scale * (variance / scale.square()).sum().sqrt()
        scale = torch.where(scale > 0, scale, 1.0)  # constant features say nothing, and must not say nan
        if train.shape[0] >= train.shape[1]:
            return cls(mean, scale, None)
        return cls(mean, scale, torch.linalg.svd((train - mean) / scale, full_matrices=False).Vh.T)

    def __call__(self, features: Tensor) -> Tensor:
        """(n, d) -> (n, min(d, training features))."""
        scaled = (features - self.mean) / self.scale
        return scaled if self.basis is None else scaled @ self.basis


@dataclass(frozen=True)
class LinearClassifier:
    """Logits y @ weight + bias of scaled features y.

    Attributes:
        lr: The learning rate that was chosen.
        validation: Cross-entropy of every learning rate on the validation folds; empty without a choice.
    """

    scaling: Scaling
    weight: Tensor
    bias: Tensor
    lr: float
    validation: dict[float, float]

    def logits(self, features: Tensor) -> Tensor:
        """(n, d) features, not yet scaled -> (n, classes)."""
        blocks = [self.scaling(block) @ self.weight + self.bias for block in torch.split(features, BLOCK)]
        return torch.cat(blocks)

    def predict(self, features: Tensor) -> Tensor:
        """(n, d) -> (n,) classes."""
        return self.logits(features).argmax(dim=1)


def fit_linear(
    features: Tensor,
    labels: Tensor,
    *,
    classes: int,
    settings: LinearSettings,
    seed: int,
    streamed: bool = False,
) -> LinearClassifier:
    """Choose a learning rate on validation folds, then train with it on all labels.

    The labels are divided into 1 / ``validation`` stratified folds. For each rate a classifier is trained
    without a fold and judged on it; folds are added until 500 labels have judged, so that large sets use one
    fold and few labels are fully cross-validated. The rate with the lowest cross-entropy there wins: with few
    labels many rates tie in accuracy.

    Args:
        features: (n, d).
        labels: (n,).
        classes: Number of classes.
        settings: Rates, epochs and so on.
        seed: Of folds and batches.
        streamed: The features lie in a file, and so will the scaled ones.
    """
    rows = min(len(features), settings.batch_size)
    with _threads_for(rows * min(features.shape) * len(settings.lrs) * classes):
        scaling = Scaling.of(features)
        scaled = _scaled(features, scaling, streamed)
        validation = _validate(scaled, labels, classes, settings, seed) if len(settings.lrs) > 1 else {}
        lr = min(validation, key=validation.__getitem__, default=settings.lrs[0])
        everything = torch.ones(1, len(labels), dtype=torch.bool, device=features.device)
        weight, bias = train_heads(scaled, labels, everything, [lr], classes, settings, seed)
    return LinearClassifier(scaling, weight[:, 0], bias[0], lr, validation)


def _validate(
    features: Tensor, labels: Tensor, classes: int, settings: LinearSettings, seed: int
) -> dict[float, float]:
    """Cross-entropy of each learning rate on labels that its classifiers did not learn from."""
    lrs = sorted(settings.lrs)
    judges = _judges(labels, settings.validation, seed).to(features.device)
    used = ~judges.repeat_interleave(len(lrs), dim=0)
    weight, bias = train_heads(features, labels, used, lrs * len(judges), classes, settings, seed)
    losses = torch.zeros(len(used), device=features.device)
    for rows in torch.split(judges.any(dim=0).nonzero()[:, 0], BLOCK):
        logs = _logits(features[rows], weight, bias).log_softmax(dim=2)
        losses -= (logs[torch.arange(len(rows)), :, labels[rows]] * ~used[:, rows].T).sum(dim=0)
    losses = losses.view(len(judges), len(lrs)).sum(dim=0) / judges.sum()
    return dict(zip(lrs, losses.tolist(), strict=True))


def _scaled(features: Tensor, scaling: Scaling, streamed: bool) -> Tensor:
    """Scaled features, in a file if the features are."""
    if not streamed or scaling.basis is not None:
        return scaling(features)
    scaled = make_rows(*features.shape, streamed=True)
    for start in range(0, len(features), BLOCK):
        scaled[start : start + BLOCK] = scaling(features[start : start + BLOCK])
    return scaled


def train_heads(
    features: Tensor,
    labels: Tensor,
    used: Tensor,
    lrs: Sequence[float],
    classes: int,
    settings: LinearSettings,
    seed: int,
) -> tuple[Tensor, Tensor]:
    """Train H linear classifiers at once by SGD with Nesterov momentum and a cosine schedule, from zero.

    Each minimises the mean cross-entropy + weight_decay / 2 ||weight||^2 over the labels that it uses.

    Args:
        features: (n, d), scaled.
        labels: (n,).
        used: (H, n) whether a classifier learns from a label.
        lrs: (H,) learning rates.
        classes: Number of classes C.
        settings: Epochs, batch size, weight decay.
        seed: Of the order.

    Returns:
        Weights (d, H, C) and biases (H, C).
    """
    count, dim = features.shape
    weight = features.new_zeros(dim, len(lrs), classes)
    bias = features.new_zeros(len(lrs), classes)
    momentum, momentum_bias = torch.zeros_like(weight), torch.zeros_like(bias)
    batches = math.ceil(count / settings.batch_size)
    steps = batches * max(settings.epochs, math.ceil(settings.min_steps / batches))
    rates = features.new_tensor(lrs)[:, None]
    order = torch.empty(0)
    for step in range(steps):
        if step % batches == 0:
            order = torch.randperm(count, generator=generator("probe", seed, step)).to(features.device)
        chosen = order[step % batches * settings.batch_size :][: settings.batch_size]
        x, mask = features[chosen], used[:, chosen].T
        # d loss / d logits of a softmax: probability - 1 for the right class, probability for the others.
        slope = _logits(x, weight, bias).softmax(dim=2)
        slope[torch.arange(len(chosen)), :, labels[chosen]] -= 1
        slope *= (mask / mask.sum(dim=0).clamp(min=1)).unsqueeze(2)
        lr = rates * (1 + math.cos(math.pi * step / steps)) / 2
        gradient = (x.T @ slope.flatten(1)).view_as(weight) + settings.weight_decay * weight
        for value, change, inertia in (
            (weight, gradient, momentum),
            (bias, slope.sum(dim=0), momentum_bias),
        ):
            inertia.mul_(MOMENTUM).add_(change)
            value -= lr * (change + MOMENTUM * inertia)
    return weight, bias


@contextmanager
def _threads_for(products: int) -> Iterator[None]:
    """One thread for steps of few products, where threads mostly wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if products < FEW_PRODUCTS else threads)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _logits(features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """(n, H, C)."""
    return (features @ weight.flatten(1)).view(len(features), *bias.shape) + bias


def _judges(labels: Tensor, share: float, seed: int) -> Tensor:
    """(folds, n) which labels judge in each fold."""
    count = max(2, round(1 / share))
    number = folds(labels.cpu().numpy(), count, seed)
    sizes = np.cumsum(np.bincount(number, minlength=count))
    needed = int(np.searchsorted(sizes, min(ENOUGH_VALIDATION, len(labels)))) + 1
    return torch.from_numpy(number == np.arange(needed)[:, None])
