"""The linear probe of the ELEVATER benchmark: many linear classifiers on cached features at once."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from cacr.evaluation.engine.heads import Heads, momentum_step, slopes
from cacr.evaluation.engine.scaling import Scaling
from cacr.evaluation.engine.tuning import Setting
from cacr.randomness import generator, mixed_seed

BATCH, BLOCK = 64, 16_384

EPSILON = 1e-5
"""Share of the mean variance that is added to every variance."""


def train_probes(
    features: Tensor,
    labels: Tensor,
    rows: Tensor,
    judged: Tensor,
    settings: Sequence[Setting],
    *,
    classes: int,
    epochs: int,
    seed: int,
    after_epoch: Callable[[Tensor], None],
) -> None:
    """Train one classifier per setting, all on the same batches and with the same initial weights.

    Each is batch norm without parameters and a linear layer, trained by SGD with momentum 0.9 and a constant rate on
    batches of 64; weight decay applies to weights and biases. The loss is cross-entropy, or binary cross-entropy if
    labels are (n, classes).

    Batch norm has the statistics of all training features. Its running averages would estimate them, but start at 0
    and 1 and need hundreds of steps to adapt: five labels for each of ten classes give fifty steps.

    Args:
        features: (n, d).
        labels: (n,) classes or (n, classes) of zeros and ones.
        rows: Numbers of the features to train on.
        judged: (m, d) features to predict.
        settings: H settings.
        classes: Number of classes C.
        epochs: Passes over the features.
        seed: Seed of initial weights and order.
        after_epoch: Called after every epoch with the scores (m, H, C) of the ``judged`` features.
    """
    rows = rows.to(labels.device)
    scaling = standardised(features, rows)
    probes = Probes(scaling, classes, settings, seed)
    inside, outside = scaling(judged), scaling.outside(judged) @ probes.first
    # Few features become small in a basis of their span; many features are scaled when they are used.
    small = None if scaling.basis is None else scaling(features[rows])
    for epoch in range(epochs):
        order = torch.randperm(len(rows), generator=generator("shots", seed, epoch)).to(rows.device)
        for chosen in torch.split(order, BATCH):
            batch = rows[chosen]
            probes.step(scaling(features[batch]) if small is None else small[chosen], labels[batch])
        after_epoch(probes(inside, outside))


class Probes:
    """H classifiers during training.

    Attributes:
        first: (d, C) the initial weights of all of them.
        heads: Weights and biases, in the basis of the scaling.
    """

    def __init__(self, scaling: Scaling, classes: int, settings: Sequence[Setting], seed: int) -> None:
        like, count = scaling.scale, len(settings)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(mixed_seed("head", seed))
            layer = nn.Linear(len(like), classes).to(like)
        self.first = layer.weight.detach().T
        inside = self.first if scaling.basis is None else scaling.basis.T @ self.first
        self.heads = Heads(inside[:, None].repeat(1, count, 1), layer.bias.detach().repeat(count, 1))
        self._left = like.new_ones(count, 1)  # factor on the part of the initial weights outside of the span
        self._lr = like.new_tensor([setting.lr for setting in settings])[:, None]
        self._decay = like.new_tensor([setting.weight_decay for setting in settings])[:, None]
        self._inertia = [torch.zeros_like(value) for value in (*self.heads, self._left)]

    def step(self, x: Tensor, labels: Tensor) -> None:
        """One step of SGD on a batch (n, r) with labels (n,) or (n, C)."""
        # The loss is a mean over images; the binary loss is also a mean over classes.
        slope = slopes(self.heads.logits(x), labels) / labels.numel()
        gradients = (*self.heads.gradients(x, slope), None)
        for value, gradient, inertia in zip((*self.heads, self._left), gradients, self._inertia, strict=True):
            momentum_step(value, gradient, inertia, self._lr, self._decay)

    def __call__(self, inside: Tensor, outside: Tensor) -> Tensor:
        """Scores (m, H, C) of features (m, r), given their initial scores (m, C) outside of the span."""
        return self.heads.logits(inside) + self._left * outside[:, None]


def standardised(features: Tensor, rows: Tensor) -> Scaling:
    """The scaling of some rows of features: y = (x - mean) / sqrt(variance + 1e-5 mean variance)."""
    mean, variance = moments(features, rows)
    scale = (variance + EPSILON * variance.mean()).sqrt()
    return Scaling.of(mean, scale, features[rows] if len(rows) < features.shape[1] else None)


def moments(features: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance (d,) of some rows of features, computed block by block."""
    blocks = torch.split(rows, BLOCK)
    mean = torch.stack([features[block].double().sum(dim=0) for block in blocks]).sum(dim=0) / len(rows)
    squares = torch.stack([(features[block] - mean).square().sum(dim=0) for block in blocks])
    return mean.to(features.dtype), (squares.sum(dim=0) / len(rows)).to(features.dtype)
