"""A whole network to fine-tune: an encoder, optionally the first layer of its head and batch norm, a linear layer."""

import copy
from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from cacr.data.source import Indices
from cacr.encoders import Encoder
from cacr.evaluation.engine.regularised import Mix
from cacr.randomness import mixed_seed
from cacr.training.optimization.schedules import Schedule

FIRST_IMAGES = 1024
"""Number of images for the initial statistics of batch norm."""

Batches = Iterable[tuple[Tensor, Tensor]]
"""Images (n, 3, s, s), normalised, with labels (n,) or (n, classes)."""


class Network(nn.Module):
    """Scores (n, classes) of normalised images (n, 3, s, s).

    Args:
        encoder: Its backbone is copied; the encoder itself does not change.
        classes: Number of classes.
        seed: Seed of the initial weights of the linear layer.
        device: Device for training.
        head1: The first layer of a head, features (n, feature_dim) -> (n, hidden), trained with the backbone; None:
            the features are classified.
        norm: Whether a batch norm without weights stands before the linear layer.
    """

    def __init__(
        self,
        encoder: Encoder,
        classes: int,
        seed: int,
        device: torch.device,
        head1: nn.Module | None = None,
        *,
        norm: bool = True,
    ) -> None:
        super().__init__()
        self.backbone = copy.deepcopy(encoder.backbone)
        self.head1 = nn.Identity() if head1 is None else copy.deepcopy(head1)
        width = encoder.feature_dim if head1 is None else _outputs(head1)
        self.norm = nn.BatchNorm1d(width, affine=False) if norm else None
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(mixed_seed("head", seed))
            self.head = nn.Linear(width, classes)
        for parameter in self.parameters():
            parameter.requires_grad_(True)
        self.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        """Scores before the softmax."""
        features = self.head1(self.backbone(images))
        scores: Tensor = self.head(features if self.norm is None else self.norm(features))
        return scores

    @torch.inference_mode()
    def begin_at(self, images: Iterable[Tensor]) -> None:
        """Set the running statistics of the last batch norm, if there is one, to those of some images.

        They would otherwise start at 0 and 1. A short training could not adapt them to features of another scale, and
        the network would be tested with wrong statistics.
        """
        if self.norm is None:
            return
        self.eval()
        features = torch.cat([self.head1(self.backbone(batch)).float() for batch in images])
        assert self.norm.running_mean is not None and self.norm.running_var is not None
        self.norm.running_mean.copy_(features.mean(dim=0))
        self.norm.running_var.copy_(features.var(dim=0, correction=0))


def _outputs(layers: nn.Module) -> int:
    """Width of the output of layers."""
    return next(layer.out_features for layer in layers.modules() if isinstance(layer, nn.Linear))


def first_images(images: Indices, seed: int) -> Indices:
    """Some of the images, in order, for :meth:`Network.begin_at`."""
    return images[np.sort(np.random.default_rng(seed).permutation(len(images))[:FIRST_IMAGES])]


def train_network(
    network: Network,
    optimizer: torch.optim.Optimizer,
    batches: Callable[[int], Batches],
    *,
    epochs: int,
    per_epoch: int,
    label_smoothing: float = 0.0,
    rate: Schedule | None = None,
    mix: Mix | None = None,
    after_epoch: Callable[[], None] = lambda: None,
) -> None:
    """Train for some epochs; a batch of a single image, which has no variance, is skipped.

    If the loss is no longer a number, the training stops early.

    Args:
        network: Trained in place.
        optimizer: Optimiser of its parameters; ``lr`` of each group is its peak rate.
        batches: The batches of an epoch, by its number.
        epochs: Passes over the images.
        per_epoch: Batches per epoch.
        label_smoothing: Share of the target that is divided among all classes.
        rate: Factor on the learning rates by step; constant if not given.
        mix: Changes batches, and returns class shares, already smoothed, instead of labels.
        after_epoch: Called after every epoch.
    """
    highest = [group["lr"] for group in optimizer.param_groups]
    for epoch in range(epochs):
        network.train()
        for number, (images, labels) in enumerate(batches(epoch)):
            if len(images) < 2:
                continue
            factor = 1.0 if rate is None else rate(epoch * per_epoch + number)
            for group, lr in zip(optimizer.param_groups, highest, strict=True):
                group["lr"] = lr * factor
            if mix is None:
                loss = _loss(network(images), labels, label_smoothing)
            else:
                loss = _loss_of_shares(network, *mix(images, labels))
            if not loss.isfinite():
                return
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        after_epoch()


@torch.inference_mode()
def scores_of(network: Network, batches: Batches) -> tuple[Tensor, Tensor]:
    """Scores (n, classes) and labels of all images."""
    network.eval()
    pairs = [(network(images).float(), labels) for images, labels in batches]
    return torch.cat([scores for scores, _ in pairs]), torch.cat([labels for _, labels in pairs])


def _loss_of_shares(network: Network, images: Tensor, shares: Tensor) -> Tensor:
    """Cross-entropy of images with class shares (n, classes), which sum to 1."""
    return cross_entropy(network(images), shares)


def _loss(scores: Tensor, labels: Tensor, label_smoothing: float) -> Tensor:
    """Cross-entropy, or binary cross-entropy if images show several classes."""
    if labels.ndim == 2:
        return binary_cross_entropy_with_logits(scores, labels)
    return cross_entropy(scores, labels, label_smoothing=label_smoothing)
