"""Encoders of cacr, in addition to those of timm."""

from collections.abc import Callable

from torch import nn

from cacr.registry import Registry

ENCODERS: Registry[Callable[..., nn.Module]] = Registry("encoder")
"""Name -> function or class that makes a backbone with random weights: (n, 3, s, s) -> (n, feature_dim).

It takes the keyword ``image_size`` and, if they have an effect, ``width``, ``weights`` and ``pretrained``.
"""
