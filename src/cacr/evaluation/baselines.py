"""What a trained encoder must beat: itself before training, and no encoder at all."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn

from cacr.encoders import Encoder, EncoderInfo, build_encoder
from cacr.registry import Registry

BASELINES: Registry[Callable[[EncoderInfo, int], Encoder]] = Registry("baseline")
"""Name -> function of a trained encoder's description and a seed: what is measured beside that encoder."""

PIXELS_SIDE = 32
"""Of the images whose pixels are features."""


@BASELINES.register("untrained")
def untrained(info: EncoderInfo, seed: int) -> Encoder:
    """The same architecture with random weights and the same preprocessing."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = build_encoder(info.encoder, image_size=info.image_size, width=info.width)
    encoder.info = replace(info, preset=None, training={})
    return encoder.eval()


@BASELINES.register("pixels")
def pixels(info: EncoderInfo, seed: int) -> Encoder:
    """The normalised pixels themselves, after the same preprocessing, in images of at most 32 pixels a side."""
    side = min(info.image_size, PIXELS_SIDE)
    # Means of squares: larger images would give their noise the most features, and hide what they show.
    network = nn.Sequential(nn.AdaptiveAvgPool2d(side), nn.Flatten())
    described = replace(info, encoder="pixels", width=1.0, feature_dim=3 * side**2, preset=None, training={})
    return Encoder(network, described).eval()
