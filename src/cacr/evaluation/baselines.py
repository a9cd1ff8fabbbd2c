"""What a trained encoder must beat: the weights that it started from, and no encoder at all."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from cacr.encoders import Encoder, EncoderInfo, build_described, load_encoder
from cacr.errors import UserError
from cacr.registry import Registry

PIXELS_SIDE = 32
"""Of the images whose pixels are features."""


@dataclass(frozen=True)
class Origin:
    """Where a trained encoder comes from.

    Attributes:
        info: its description.
        start: folder of the weights that its run started from; None where they were not kept.
        scratch: whether these were random.
    """

    info: EncoderInfo
    start: Path | None = None
    scratch: bool = True

    @property
    def baselines(self) -> tuple[str, ...]:
        """What is measured beside it where nothing else is asked for, and protocols take seconds."""
        finished = ":" in self.info.encoder  # a CLIP as others built it: nobody here could build it anew
        return (*self.needed_baselines, *(() if finished else ("untrained",)), "pixels")

    @property
    def needed_baselines(self) -> tuple[str, ...]:
        """What is measured beside it even where protocols take long: whether weights of others became better."""
        return ("start",) if self.start is not None and not self.scratch else ()


Baseline = Callable[[Origin, int], Encoder]

BASELINES: Registry[Baseline] = Registry("baseline")
"""Name -> function of where a trained encoder comes from and a seed: what is measured beside that encoder."""


@BASELINES.register("start")
def start(origin: Origin, seed: int) -> Encoder:
    """The weights that the run started from: random ones, or those of --init."""
    if origin.start is None:
        raise UserError(
            "the weights that this encoder started from were not kept: leave the baseline start out"
        )
    encoder = load_encoder(origin.start, with_reader=False)
    encoder.info = replace(origin.info, training={})
    return encoder


@BASELINES.register("untrained")
def untrained(origin: Origin, seed: int) -> Encoder:
    """The same architecture before any training: the very weights that the run started from, if it kept them."""
    if origin.start is not None and origin.scratch:
        return start(origin, seed)
    return scratch(origin, seed)


@BASELINES.register("scratch")
def scratch(origin: Origin, seed: int) -> Encoder:
    """The same architecture with new random weights, as its authors draw them: for what trains it from there."""
    info = origin.info
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = build_described(info)
    encoder.info = replace(info, training={})
    return encoder.eval()


@BASELINES.register("pixels")
def pixels(origin: Origin, seed: int) -> Encoder:
    """The normalised pixels themselves, after the same preprocessing, in images of at most 32 pixels a side."""
    info = origin.info
    side = min(info.image_size, PIXELS_SIDE)
    # Means of squares: larger images would give their noise the most features, and hide what they show.
    network = nn.Sequential(nn.AdaptiveAvgPool2d(side), nn.Flatten())
    described = replace(info, encoder="pixels", width=1.0, feature_dim=info.channels * side**2, training={})
    return Encoder(network, described).eval()
