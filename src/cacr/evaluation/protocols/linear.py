"""A linear classifier on cached features; several learning rates are trained at the same time."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from cacr.evaluation.data.splits import folds
from cacr.evaluation.data.task import LabelledFeatures, Task
from cacr.evaluation.engine.draws import judge, over_draws
from cacr.evaluation.engine.heads import Heads, nesterov_step, slopes
from cacr.evaluation.engine.scaling import Scaling
from cacr.evaluation.registry import PROTOCOLS, ProtocolSettings, Score
from cacr.features.encode import make_rows
from cacr.randomness import generator
from cacr.training.optimization.schedules import cosine

ENOUGH_VALIDATION = 500
"""Number of validation labels that are enough: the standard error is then at most two points."""

FEW_PRODUCTS = 30_000_000
"""For steps with fewer multiplications, a second thread costs more than it saves."""

BLOCK = 16_384
"""Features per block."""

QUIET = 0.1
"""Share of the mean variance that is added to every variance, so that nearly constant features do not become noise."""


class LinearSettings(ProtocolSettings):
    """A linear classifier on cached features; the learning rate is chosen on a validation split."""

    quick: ClassVar[bool] = True

    lrs: tuple[Annotated[float, Field(gt=0)], ...] = Field(
        (0.3, 1.0, 3.0, 10.0, 30.0, 100.0), min_length=1, description="learning rates of SGD to choose from"
    )
    epochs: int = Field(50, ge=1, le=1_000_000, description="passes over the features")
    min_steps: int = Field(300, ge=1, le=10**9, description="add passes until there are this many steps")
    batch_size: int = Field(512, ge=1, le=1_000_000, description="features per step")
    weight_decay: float = Field(0.0, ge=0, description="L2 penalty on the weights, times one half")
    validation: float = Field(
        0.2, gt=0, le=0.5, description="share of the training labels in a fold, for choosing the rate"
    )
    labels_per_class: int | None = Field(None, ge=1, description="use only this number of labels per class")
    draws: int = Field(5, ge=1, le=1000, description="number of random draws of labels, for mean and spread")


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
        validation = {str(lr): share for lr, share in classifier.validation.items()}
        return judge(task, classifier.logits(task.test.values), lr=classifier.lr, validation=validation)

    return over_draws(task, settings.labels_per_class, settings.draws, measure)


@dataclass(frozen=True)
class LinearClassifier:
    """Logits y @ weight + bias of scaled features y.

    Attributes:
        lr: The chosen learning rate.
        validation: Cross-entropy of every learning rate on the validation folds; empty if there was no choice.
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

    The labels are divided into 1 / ``validation`` stratified folds. For each rate, a classifier is trained without a
    fold and tested on it. Folds are added until 500 labels were tested: large data sets use one fold, few labels are
    fully cross-validated. The rate with the lowest cross-entropy is chosen, because with few labels many rates have
    the same accuracy.

    Args:
        features: (n, d).
        labels: (n,).
        classes: Number of classes.
        settings: Rates, epochs and so on.
        seed: Seed of folds and batches.
        streamed: The features are in a file, and so will be the scaled ones.
    """
    rows = min(len(features), settings.batch_size)
    with _threads_for(rows * min(features.shape) * len(settings.lrs) * classes):
        scaling = unit_scaling(features)
        scaled = _scaled(features, scaling, streamed)
        validation = _validate(scaled, labels, classes, settings, seed) if len(settings.lrs) > 1 else {}
        lr = min(validation, key=validation.__getitem__, default=settings.lrs[0])
        everything = torch.ones(1, len(labels), dtype=torch.bool, device=features.device)
        weight, bias = train_heads(scaled, labels, everything, [lr], classes, settings, seed)
    return LinearClassifier(scaling, weight[:, 0], bias[0], lr, validation)


def unit_scaling(train: Tensor) -> Scaling:
    """The scaling of training features (n, d) to a mean square norm of 1.

    y = (x - mean) / sqrt(variance + 0.1 mean variance), then divided by one number, so that the same learning rates
    work for features of any dimension.
    """
    mean, variance = train.mean(dim=0), train.var(dim=0, correction=0)
    scale = (variance + QUIET * variance.mean()).sqrt()
    scale = scale * (variance / scale.square()).sum().sqrt()
    return Scaling.of(mean, scale, train if train.shape[0] < train.shape[1] else None)


def _validate(
    features: Tensor, labels: Tensor, classes: int, settings: LinearSettings, seed: int
) -> dict[float, float]:
    """Cross-entropy of each learning rate on labels that its classifiers were not trained on."""
    lrs = sorted(settings.lrs)
    judges = _judges(labels, settings.validation, seed).to(features.device)
    used = ~judges.repeat_interleave(len(lrs), dim=0)
    heads = train_heads(features, labels, used, lrs * len(judges), classes, settings, seed)
    losses = torch.zeros(len(used), device=features.device)
    for rows in torch.split(judges.any(dim=0).nonzero()[:, 0], BLOCK):
        logs = heads.logits(features[rows]).log_softmax(dim=2)
        losses -= (logs[torch.arange(len(rows)), :, labels[rows]] * ~used[:, rows].T).sum(dim=0)
    losses = losses.view(len(judges), len(lrs)).sum(dim=0) / judges.sum()
    return dict(zip(lrs, losses.tolist(), strict=True))


def _scaled(features: Tensor, scaling: Scaling, streamed: bool) -> Tensor:
    """Scaled features; in a file if the features are in a file."""
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
) -> Heads:
    """Train H linear classifiers at once by SGD with Nesterov momentum and a cosine schedule, starting from zero.

    Each minimises the mean cross-entropy + weight_decay / 2 ||weight||^2 over its labels.

    Args:
        features: (n, d), scaled.
        labels: (n,).
        used: (H, n) whether a classifier is trained on a label.
        lrs: (H,) learning rates.
        classes: Number of classes C.
        settings: Epochs, batch size, weight decay.
        seed: Seed of the order.
    """
    count, dim = features.shape
    heads = Heads(features.new_zeros(dim, len(lrs), classes), features.new_zeros(len(lrs), classes))
    momentum = Heads(*(torch.zeros_like(value) for value in heads))
    batches = math.ceil(count / settings.batch_size)
    steps = batches * max(settings.epochs, math.ceil(settings.min_steps / batches))
    rates, factor = features.new_tensor(lrs)[:, None], cosine(steps)
    order = torch.empty(0)
    for step in range(steps):
        if step % batches == 0:
            order = torch.randperm(count, generator=generator("probe", seed, step)).to(features.device)
        chosen = order[step % batches * settings.batch_size :][: settings.batch_size]
        x, mask = features[chosen], used[:, chosen].T
        slope = slopes(heads.logits(x), labels[chosen])
        slope *= (mask / mask.sum(dim=0).clamp(min=1)).unsqueeze(2)
        lr = rates * factor(step)
        gradient, gradient_bias = heads.gradients(x, slope)
        nesterov_step(heads.weight, gradient + settings.weight_decay * heads.weight, momentum.weight, lr)
        nesterov_step(heads.bias, gradient_bias, momentum.bias, lr)
    return heads


@contextmanager
def _threads_for(products: int) -> Iterator[None]:
    """Use one thread for small steps, where threads mostly wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if products < FEW_PRODUCTS else threads)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _judges(labels: Tensor, share: float, seed: int) -> Tensor:
    """(folds, n) which labels are for validation in each fold."""
    count = max(2, round(1 / share))
    number = folds(labels.cpu().numpy(), count, seed)
    sizes = np.cumsum(np.bincount(number, minlength=count))
    needed = int(np.searchsorted(sizes, min(ENOUGH_VALIDATION, len(labels)))) + 1
    return torch.from_numpy(number == np.arange(needed)[:, None])
