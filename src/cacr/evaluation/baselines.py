"""Baselines of a trained encoder: the weights that it started from, untrained networks, and raw pixels."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from cacr.encoders import Encoder, EncoderInfo, build_described, load_encoder
from cacr.errors import UserError
from cacr.registry import Registry

PIXELS_SIDE = 32
"""Largest side of images whose pixels are used as features."""


@dataclass(frozen=True)
class Origin:
    """Where a trained encoder comes from.

    Attributes:
        info: its description.
        start: folder of the weights that its run started from; None if they were not stored.
        scratch: whether these weights were random.
    """

    info: EncoderInfo
    start: Path | None = None
    scratch: bool = True

    @property
    def baselines(self) -> tuple[str, ...]:
        """Default baselines for protocols that take seconds."""
        finished = ":" in self.info.encoder  # a CLIP of other software, which cannot be built again here
        return (*self.needed_baselines, *(() if finished else ("untrained",)), "pixels")

    @property
    def needed_baselines(self) -> tuple[str, ...]:
        """Default baselines even for slow protocols: whether pretrained weights became better."""
        return ("start",) if self.start is not None and not self.scratch else ()


Baseline = Callable[[Origin, int], Encoder]

BASELINES: Registry[Baseline] = Registry("baseline")
"""Name -> function of the origin of an encoder and a seed, which returns the baseline."""


@BASELINES.register("start")
def start(origin: Origin, seed: int) -> Encoder:
    """The weights that the run started from: random ones, or those of --init."""
    if origin.start is None:
        raise UserError(
            "the weights that this encoder started from were not stored: leave out the baseline start"
        )
    encoder = load_encoder(origin.start, with_reader=False)
    encoder.info = replace(origin.info, training={})
    return encoder


@BASELINES.register("untrained")
def untrained(origin: Origin, seed: int) -> Encoder:
    """The same architecture before any training: the initial weights of the run, if they were stored."""
    if origin.start is not None and origin.scratch:
        return start(origin, seed)
    return scratch(origin, seed)


@BASELINES.register("scratch")
def scratch(origin: Origin, seed: int) -> Encoder:
    """The same architecture with new random weights, drawn as in its paper; for protocols that train the network."""
    info = origin.info
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = build_described(info)
    encoder.info = replace(info, training={})
    return encoder.eval()


@BASELINES.register("pixels")
def pixels(origin: Origin, seed: int) -> Encoder:
    """The normalised pixels, after the same preprocessing, of images of at most 32 x 32 pixels."""
    info = origin.info
    side = min(info.image_size, PIXELS_SIDE)
    # Mean over squares of pixels: in larger images, noise would dominate the features.
    network = nn.Sequential(nn.AdaptiveAvgPool2d(side), nn.Flatten())
    described = replace(info, encoder="pixels", width=1.0, feature_dim=info.channels * side**2, training={})
    return Encoder(network, described).eval()
