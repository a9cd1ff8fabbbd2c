"""What a trained encoder must beat: itself before training, and no encoder at all."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn

from cacr.encoders import Encoder, EncoderInfo, build_encoder
from cacr.registry import Registry

BASELINES: Registry[Callable[[EncoderInfo, int], Encoder]] = Registry("baseline")
"""Name -> function of a trained encoder's description and a seed: what is measured beside that encoder."""


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
    """The normalised pixels themselves, after the same preprocessing."""
    dim = 3 * info.image_size**2
    return Encoder(
        nn.Flatten(), replace(info, encoder="pixels", width=1.0, feature_dim=dim, preset=None, training={})
    ).eval()
