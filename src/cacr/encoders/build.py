"""Encoders by name."""

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
        weights: Scale of the random weights: ``paper``, as the encoder's authors draw them, or ``kaiming``, for
            encoders that have the choice.
        pretrained: Start from timm's weights instead; this may use the network.
        any_size: Take images of other sizes too, as local crops are; transformers interpolate their positions.
        options: Further arguments of timm's model, such as ``num_heads``.
        channels: Of the images.

    Raises:
        UserError: for an unknown name (with the nearest), a width that the encoder does not have, or a size
            that it cannot take.
    """
    if name in ENCODERS:
        if options:
            raise UserError(f"{name} has no options {', '.join(options)}: they are for timm's models")
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
    """An encoder of the kind that a description is of, with random weights and its own description."""
    return build_encoder(
        info.encoder,
        image_size=info.image_size,
        width=info.width,
        options=info.options,
        channels=info.channels,
    )


def build_described(info: EncoderInfo) -> Encoder:
    """The same with this description."""
    encoder = build_like(info)
    encoder.info = info
    return encoder


@lru_cache
def feature_dim_of(name: str, image_size: int, width: float) -> int:
    """The dimension of an encoder's features, found without its weights."""
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        return build_encoder(name, image_size=image_size, width=width).feature_dim


def require_encoder(name: str) -> None:
    """Refuse a name that is neither of the package nor of timm, with the nearest names.

    Raises:
        UnknownNameError: with what the user may have meant.
    """
    if name not in ENCODERS:
        require_timm_name(name, ENCODERS.names())


def is_transformer(name: str) -> bool:
    """Whether an encoder of this name has position embeddings."""
    return name not in ENCODERS and has_positions(name)


def _own(
    name: str, image_size: int, width: float, weights: str, pretrained: bool, channels: int
) -> nn.Module:
    """A backbone of the registry, given the arguments that it takes."""
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
            f"{name} has no width (got {width:g}); leave it out, or choose small_alexnet or a smaller encoder"
        )


def has_weights_rule(name: str) -> bool:
    """Whether an encoder of this name can start from weights of Kaiming's scale or of its paper's."""
    return name in ENCODERS and "weights" in signature(ENCODERS[name]).parameters


def _refuse_weights(name: str, weights: str) -> None:
    if weights != "paper":
        raise UserError(f"{name} has one way to draw its weights: leave weights={weights} out")


@torch.no_grad()
def _feature_dim(name: str, backbone: nn.Module, image_size: int, channels: int) -> int:
    """Dimension of the features, seen by encoding one black image: so a size that does not fit shows here."""
    training = backbone.training
    try:
        features = backbone.eval()(torch.zeros(1, channels, image_size, image_size))
    except Exception as error:  # every network has its own way of failing on a size
        raise UserError(f"{name} cannot take images of {image_size} pixels: {error}") from error
    finally:
        backbone.train(training)
    if features.ndim != 2:
        raise UserError(
            f"{name} gives features of shape {tuple(features.shape[1:])}, not one vector an image"
        )
    return int(features.shape[1])
