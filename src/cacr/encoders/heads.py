"""Projection heads: from an encoder's features to the embeddings that an objective compares."""

from collections.abc import Callable
from itertools import pairwise

from torch import nn

from cacr.registry import Registry

HEADS: Registry[Callable[[int, int, int], nn.Module]] = Registry("head")
"""Name -> function of feature_dim, hidden and dim: a module (n, feature_dim) -> (n, dim)."""


@HEADS.register("linear")
def linear_head(feature_dim: int, hidden: int, dim: int) -> nn.Module:
    """One linear layer with a bias: fc8, the last layer of small_alexnet."""
    head = nn.Linear(feature_dim, dim)
    nn.init.normal_(head.weight, std=0.02)
    nn.init.zeros_(head.bias)
    return head


@HEADS.register("mlp")
def mlp_head(feature_dim: int, hidden: int, dim: int) -> nn.Module:
    """Linear - batch norm - ReLU - linear: the head of the ResNet-50 experiments on small images."""
    return nn.Sequential(
        nn.Linear(feature_dim, hidden, bias=False),
        nn.BatchNorm1d(hidden),
        nn.ReLU(inplace=True),
        nn.Linear(hidden, dim),
    )


@HEADS.register("normed")
def normed_head(feature_dim: int, hidden: int, dim: int) -> nn.Module:
    """Linear - batch norm - ReLU - linear - batch norm without weights: embeddings that cannot shrink to a point."""
    return _normalised_layers(feature_dim, hidden, dim, last_norm=True)


@HEADS.register("moco_v2")
def moco_v2_head(feature_dim: int, hidden: int, dim: int) -> nn.Module:
    """Linear - ReLU - linear, with biases and without batch norm: MoCo v2."""
    return nn.Sequential(nn.Linear(feature_dim, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, dim))


@HEADS.register("moco_v3")
def moco_v3_head(feature_dim: int, hidden: int, dim: int) -> nn.Module:
    """Two linear layers, each with batch norm, ReLU between: MoCo v3's projector for ResNets."""
    return _normalised_layers(feature_dim, hidden, dim, last_norm=True)


@HEADS.register("moco_v3_vit")
def moco_v3_vit_head(feature_dim: int, hidden: int, dim: int) -> nn.Module:
    """Three linear layers, each with batch norm, ReLU between: MoCo v3's projector for transformers."""
    return _normalised_layers(feature_dim, hidden, hidden, dim, last_norm=True)


def usual_hidden(head: str, feature_dim: int, width: float = 1.0) -> int:
    """Width of a head's hidden layers in the experiments it comes from, for an encoder of a given width."""
    if head.startswith("moco_v3"):
        return max(1, round(4096 * width))
    return feature_dim if head == "moco_v2" else 512


def build_head(head: str, feature_dim: int, dim: int = 128, hidden: int | None = None) -> nn.Module:
    """A head by its name.

    Args:
        head: A name of :data:`HEADS`.
        feature_dim: Dimension of the encoder's features.
        dim: Dimension of the embeddings.
        hidden: Width of the hidden layers; None for that of :func:`usual_hidden`.

    Returns:
        A module (n, feature_dim) -> (n, dim); its output is not yet of unit length.
    """
    return HEADS[head](feature_dim, hidden or usual_hidden(head, feature_dim), dim)


def build_predictor(dim: int, hidden: int, *, last_norm: bool) -> nn.Module:
    """MoCo v3's predictor (n, dim) -> (n, dim): linear - batch norm - ReLU - linear.

    Args:
        dim: Dimension of the embeddings.
        hidden: Width of the hidden layer.
        last_norm: Whether batch norm follows; it does for transformers.
    """
    return _normalised_layers(dim, hidden, dim, last_norm=last_norm)


def _normalised_layers(*widths: int, last_norm: bool) -> nn.Module:
    """Linear layers without bias; batch norm and ReLU between them, and batch norm without weights at the end."""
    layers: list[nn.Module] = []
    for wide, narrow in pairwise(widths[:-1]):
        layers += [nn.Linear(wide, narrow, bias=False), nn.BatchNorm1d(narrow), nn.ReLU(inplace=True)]
    layers.append(nn.Linear(widths[-2], widths[-1], bias=False))
    if last_norm:
        layers.append(nn.BatchNorm1d(widths[-1], affine=False))
    return nn.Sequential(*layers)
