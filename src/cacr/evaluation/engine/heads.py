"""Many linear classifiers on cached features at once: the linear probe of the ELEVATER benchmark."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from cacr.evaluation.engine.tuning import Setting
from cacr.randomness import generator, mixed_seed

MOMENTUM, BATCH, BLOCK = 0.9, 64, 16_384

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
    """Train one classifier for each setting, all on the same batches and from the same first weights.

    Each is batch norm without parameters and a linear layer, trained by SGD with momentum 0.9 and a constant
    rate on batches of 64; the weight decay holds for weights and biases. The loss is cross-entropy, or binary
    cross-entropy where labels are (n, classes).

    Batch norm has the statistics of all features that are learned from. Its running averages estimate them, but
    start at 0 and 1 and need hundreds of steps to forget it: five labels of ten classes give fifty.

    Args:
        features: (n, d).
        labels: (n,) classes or (n, classes) of zeros and ones.
        rows: Numbers of the features to learn from.
        judged: (m, d) features to judge.
        settings: H of them.
        classes: Number of classes C.
        epochs: Passes over the features.
        seed: Of the first weights and the order.
        after_epoch: Called after every epoch with the scores (m, H, C) of the judged features.
    """
    rows = rows.to(labels.device)
    space = Space(features, rows)
    probes = Probes(space, classes, settings, seed)
    inside, outside = space(judged), space.outside(judged) @ probes.first
    # Few features are small once they are expressed in their span; many are scaled when they are used.
    small = None if space.basis is None else space(features[rows])
    for epoch in range(epochs):
        order = torch.randperm(len(rows), generator=generator("shots", seed, epoch)).to(rows.device)
        for chosen in torch.split(order, BATCH):
            batch = rows[chosen]
            probes.step(space(features[batch]) if small is None else small[chosen], labels[batch])
        after_epoch(probes(inside, outside))


class Space:
    """Features as the classifiers see them: standardised, and in a basis of their span where they are few.

    y = (x - mean) / sqrt(variance + 1e-5 mean variance). Gradients of the weights lie in the span of the
    training features; what the first weights have outside of it is never learned, only decayed.

    Attributes:
        mean: (d,).
        scale: (d,).
        basis: (d, r) orthonormal, or None for all of the space.
    """

    def __init__(self, features: Tensor, rows: Tensor) -> None:
        self.mean, variance = moments(features, rows)
        scale = (variance + EPSILON * variance.mean()).sqrt()
        self.scale = torch.where(scale > 0, scale, 1.0)  # constant features say nothing, and must not say nan
        self.basis: Tensor | None = None
        if len(rows) < features.shape[1]:
            self.basis = torch.linalg.svd(self._standard(features[rows]), full_matrices=False).Vh.T

    def __call__(self, features: Tensor) -> Tensor:
        """(n, d) -> (n, r)."""
        scaled = self._standard(features)
        return scaled if self.basis is None else scaled @ self.basis

    def outside(self, features: Tensor) -> Tensor:
        """(n, d), the part that the basis leaves over."""
        scaled = self._standard(features)
        return torch.zeros_like(scaled) if self.basis is None else scaled - scaled @ self.basis @ self.basis.T

    def _standard(self, features: Tensor) -> Tensor:
        return (features - self.mean) / self.scale


class Probes:
    """H classifiers while they are trained.

    Attributes:
        first: (d, C) the weights that all of them started with.
        weight: (r, H, C) in the basis of the space.
        bias: (H, C).
    """

    def __init__(self, space: Space, classes: int, settings: Sequence[Setting], seed: int) -> None:
        like, count = space.scale, len(settings)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(mixed_seed("head", seed))
            layer = nn.Linear(len(like), classes).to(like)
        self.first = layer.weight.detach().T
        inside = self.first if space.basis is None else space.basis.T @ self.first
        self.weight = inside[:, None].repeat(1, count, 1)
        self.bias = layer.bias.detach().repeat(count, 1)
        self._left = like.new_ones(count, 1)  # factor on what the first weights have outside of the span
        self._lr = like.new_tensor([setting.lr for setting in settings])[:, None]
        self._decay = like.new_tensor([setting.weight_decay for setting in settings])[:, None]
        self._inertia = [torch.zeros_like(value) for value in (self.weight, self.bias, self._left)]

    def step(self, x: Tensor, labels: Tensor) -> None:
        """One step of SGD on a batch (n, r) with labels (n,) or (n, C)."""
        logits = self._logits(x)
        # d loss / d logits is probability - truth for both losses; the binary one is a mean over classes too.
        if labels.ndim == 1:
            slope = (logits.softmax(dim=2) - one_hot(labels, logits.shape[2])[:, None]) / len(x)
        else:
            slope = (logits.sigmoid() - labels[:, None]) / labels.numel()
        gradients = ((x.T @ slope.flatten(1)).view_as(self.weight), slope.sum(dim=0), None)
        values = (self.weight, self.bias, self._left)
        for value, gradient, inertia in zip(values, gradients, self._inertia, strict=True):
            inertia.mul_(MOMENTUM).addcmul_(self._decay, value)
            if gradient is not None:
                inertia.add_(gradient)
            value.addcmul_(self._lr, inertia, value=-1)

    def __call__(self, inside: Tensor, outside: Tensor) -> Tensor:
        """Scores (m, H, C) of features (m, r), and of what they score outside of the span, (m, C), at first."""
        return self._logits(inside) + self._left * outside[:, None]

    def _logits(self, x: Tensor) -> Tensor:
        return (x @ self.weight.flatten(1)).view(len(x), *self.bias.shape) + self.bias


def moments(features: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance (d,) of some rows of features, which are looked at block by block."""
    blocks = torch.split(rows, BLOCK)
    mean = torch.stack([features[block].double().sum(dim=0) for block in blocks]).sum(dim=0) / len(rows)
    squares = torch.stack([(features[block] - mean).square().sum(dim=0) for block in blocks])
    return mean.to(features.dtype), (squares.sum(dim=0) / len(rows)).to(features.dtype)
