"""Build encoders by name."""

from collections.abc import Mapping
from functools import lru_cache
from inspect import signature
from typing import Any

import torch
from torch import nn

from cacr.encoders.encoder import Encoder, EncoderInfo
from cacr.encoders.registry import ENCODERS
from cacr.encoders.timm_models import has_positions, require_timm_name, stem_options, timm_backbone
from cacr.errors import UserError


def build_encoder(
    name: str,
    *,
    image_size: int,
    width: float = 1.0,
    weights: str = "paper",
    pretrained: bool = False,
    any_size: bool = False,
    options: Mapping[str, int] | None = None,
    channels: int = 3,
) -> Encoder:
    """An encoder with random weights, drawn from torch's generator.

    Args:
        name: small_alexnet, resnet18, resnet50, or any timm name.
        image_size: Side of the images in pixels.
        width: Factor on the channels, for encoders that have one.
        weights: Random weights: ``paper``, as in the encoder's paper, or ``kaiming``, for encoders with this choice.
        pretrained: Start from timm's weights instead; this may use the network.
        any_size: Also accept images of other sizes, such as local crops; transformers interpolate their positions.
        options: More arguments of timm's model, such as ``num_heads``.
        channels: Number of channels of the images.

    Raises:
        UserError: the name is unknown (suggests names), or the encoder does not support the width or the size.
    """
    if name in ENCODERS:
        if options:
            raise UserError(f"{name} has no options {', '.join(options)}: only timm's models have them")
        backbone = _own(name, image_size, width, weights, pretrained, channels)
    else:
        require_encoder(name)
        _refuse_width(name, width)
        _refuse_weights(name, weights)
        backbone = timm_backbone(
            name,
            image_size=image_size,
            pretrained=pretrained,
            any_size=any_size,
            **stem_options(channels),
            **options or {},
        )
    dim = _feature_dim(name, backbone, image_size, channels)
    mean, std = (0.0,) * channels, (1.0,) * channels
    info = EncoderInfo(name, image_size, dim, width=width, options=dict(options or {}), mean=mean, std=std)
    return Encoder(backbone, info)


def build_like(info: EncoderInfo) -> Encoder:
    """A new encoder of the described kind, with random weights and its own description."""
    return build_encoder(
        info.encoder,
        image_size=info.image_size,
        width=info.width,
        options=info.options,
        channels=info.channels,
    )


def build_described(info: EncoderInfo) -> Encoder:
    """The same, with the given description."""
    encoder = build_like(info)
    encoder.info = info
    return encoder


@lru_cache
def feature_dim_of(name: str, image_size: int, width: float) -> int:
    """The dimension of an encoder's features, found without its weights."""
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        return build_encoder(name, image_size=image_size, width=width).feature_dim


def require_encoder(name: str) -> None:
    """Refuse a name that is not an encoder of cacr or timm.

    Raises:
        UnknownNameError: suggests names.
    """
    if name not in ENCODERS:
        require_timm_name(name, ENCODERS.names())


def is_transformer(name: str) -> bool:
    """Whether an encoder of this name has position embeddings."""
    return name not in ENCODERS and has_positions(name)


def _own(
    name: str, image_size: int, width: float, weights: str, pretrained: bool, channels: int
) -> nn.Module:
    """A backbone of the registry, with the arguments that it takes."""
    make = ENCODERS[name]
    takes = signature(make).parameters
    options: dict[str, Any] = {"image_size": image_size, "channels": channels}
    if "width" in takes:
        options["width"] = width
    else:
        _refuse_width(name, width)
    if "weights" in takes:
        options["weights"] = weights
    else:
        _refuse_weights(name, weights)
    if "pretrained" in takes:
        options["pretrained"] = pretrained
    elif pretrained:
        raise UserError(f"there are no pretrained weights of {name}; choose a timm encoder such as resnet18")
    return make(**options)


def _refuse_width(name: str, width: float) -> None:
    if width != 1:
        raise UserError(
            f"{name} does not support width (got {width:g}): leave it out, or choose small_alexnet or a smaller encoder"
        )


def has_weights_rule(name: str) -> bool:
    """Whether an encoder of this name supports both kinds of random weights, ``kaiming`` and ``paper``."""
    return name in ENCODERS and "weights" in signature(ENCODERS[name]).parameters


def _refuse_weights(name: str, weights: str) -> None:
    if weights != "paper":
        raise UserError(f"{name} does not support weights={weights}: leave it out")


@torch.no_grad()
def _feature_dim(name: str, backbone: nn.Module, image_size: int, channels: int) -> int:
    """Dimension of the features, found by encoding one black image; this also shows a wrong image size."""
    training = backbone.training
    try:
        features = backbone.eval()(torch.zeros(1, channels, image_size, image_size))
    except Exception as error:  # networks fail in different ways on a wrong size
        raise UserError(f"{name} cannot take images of {image_size} pixels: {error}") from error
    finally:
        backbone.train(training)
    if features.ndim != 2:
        raise UserError(
            f"{name} gives features of shape {tuple(features.shape[1:])}, not one vector per image"
        )
    return int(features.shape[1])
