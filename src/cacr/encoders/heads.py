"""Projection heads: from an encoder's features to the embeddings that an objective compares."""

from collections.abc import Callable

from torch import nn

from cacr.registry import Registry

HEADS: Registry[Callable[[int, int], nn.Module]] = Registry("head")
"""Encoder name -> its head, for encoders that do not take :func:`mlp_head`."""

HIDDEN = 512


def mlp_head(feature_dim: int, dim: int) -> nn.Module:
    """Linear - batch norm - ReLU - linear: the head of the ResNet-50 experiments on small images."""
    return nn.Sequential(
        nn.Linear(feature_dim, HIDDEN, bias=False),
        nn.BatchNorm1d(HIDDEN),
        nn.ReLU(inplace=True),
        nn.Linear(HIDDEN, dim),
    )


def build_head(encoder: str, feature_dim: int, dim: int = 128) -> nn.Module:
    """The head that belongs to an encoder.

    Args:
        encoder: Name of the encoder.
        feature_dim: Dimension of its features.
        dim: Dimension of the embeddings.

    Returns:
        A module (n, feature_dim) -> (n, dim); its output is not yet of unit length.
    """
    make = HEADS[encoder] if encoder in HEADS.names() else mlp_head
    return make(feature_dim, dim)
