"""Recognise the architecture of an encoder by the names and shapes of its tensors."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from cacr.encoders.layouts import Backbone
from cacr.encoders.small_alexnet import pooled
from cacr.errors import UserError
from cacr.normalisation import CIFAR10, IMAGENET, STL10, Statistics

RESNETS: dict[tuple[bool, tuple[int, ...], int], str] = {
    (False, (2, 2, 2, 2), 64): "resnet18",
    (False, (3, 4, 6, 3), 64): "resnet34",
    (True, (3, 4, 6, 3), 64): "resnet50",
    (True, (3, 4, 23, 3), 64): "resnet101",
    (True, (3, 8, 36, 3), 64): "resnet152",
    (True, (3, 4, 6, 3), 128): "wide_resnet50_2",
}
"""Keys: whether blocks have three convolutions, the number of blocks per stage, and the filters of the first block."""

VITS = {(192, 12): "tiny", (384, 12): "small", (768, 12): "base", (1024, 24): "large", (1280, 32): "huge"}
"""Keys: dimension and number of blocks."""


@dataclass(frozen=True)
class Architecture:
    """How an encoder is built, and which images it takes.

    Attributes:
        encoder: name of the encoder.
        image_size: side of its images in pixels.
        resize: shorter side before the centre crop.
        statistics: mean and standard deviation per channel.
        width: width of small_alexnet.
        options: options of timm's model.
        assumed: description of what the tensors do not say and is assumed.
    """

    encoder: str
    image_size: int
    resize: int
    statistics: tuple[Statistics, Statistics]
    width: float = 1.0
    options: dict[str, int] = field(default_factory=dict)
    assumed: str = ""


def architecture_of(found: Backbone) -> Architecture:
    """The architecture of a backbone.

    Raises:
        UserError: no known architecture has such tensors.
    """
    return {"resnet": _resnet, "vit": _vit, "small_alexnet": _small_alexnet}[found.family](found)


def _resnet(found: Backbone) -> Architecture:
    tensors = found.tensors
    depths = tuple(_count(tensors, rf"layer{stage}\.(\d+)\.conv1\.weight") for stage in (1, 2, 3, 4))
    first = tensors["layer1.0.conv1.weight"].shape[0]
    name = RESNETS.get(("layer1.0.conv3.weight" in tensors, depths, first))
    if name is None or tensors["conv1.weight"].shape[:2] != (64, 3):
        raise UserError(
            f"a ResNet with stages of {depths} blocks and {first} filters is not known: give its name, timm:NAME@FILE"
        )
    if tensors["conv1.weight"].shape[-1] == 7:
        return Architecture(name, 224, 256, IMAGENET, assumed="224 px and ImageNet statistics")
    if name not in ("resnet18", "resnet50"):
        raise UserError(f"a {name} with a small first convolution is not known, only resnet18 and resnet50")
    return Architecture(name, 32, 32, CIFAR10, assumed="32 px and CIFAR-10 statistics")


def _vit(found: Backbone) -> Architecture:
    tensors = found.tensors
    dim, _, patch, _ = tensors["patch_embed.proj.weight"].shape
    depth = _count(tensors, r"blocks\.(\d+)\.attn\.qkv\.weight")
    kind = VITS.get((dim, depth))
    side = _grid(tensors["pos_embed"].shape[1]) if "pos_embed" in tensors else 0
    if kind is None or not side:
        raise UserError(
            f"a transformer of {depth} blocks of {dim} dimensions is not known: give its name, timm:NAME@FILE"
        )
    size = patch * side
    name = f"vit_{kind}_patch{patch}_224"
    if "blocks.0.ls1.gamma" in tensors:
        name = f"vit_{kind}_patch{patch}_dinov2"
    # MoCo v3's small transformer has twelve heads, others have six: no shape shows it.
    heads = {"num_heads": 12} if found.software.startswith("MoCo v3") and kind == "small" else {}
    return Architecture(
        name, size, round(size * 256 / 224), IMAGENET, options=heads, assumed="ImageNet statistics"
    )


def _small_alexnet(found: Backbone) -> Architecture:
    tensors = found.tensors
    widest, last = tensors["fc7.0.weight"].shape[0], tensors["conv5.0.weight"].shape[0]
    inputs = tensors["fc6.1.weight"].shape[1] / last
    for size, statistics, data in ((32, CIFAR10, "CIFAR-10"), (64, STL10, "STL-10")):
        if pooled(pooled(pooled(size))) ** 2 == inputs:
            return Architecture(
                "small_alexnet",
                size,
                32 if size == 32 else 70,
                statistics,
                width=widest / 4096,
                assumed=f"{data} statistics",
            )
    raise UserError(
        f"a small AlexNet whose fc6 has {inputs:g} inputs per channel is not known, only those for 32 and 64 px"
    )


def _count(tensors: Mapping[str, Tensor], pattern: str) -> int:
    return len({found[1] for name in tensors if (found := re.fullmatch(pattern, name))})


def _grid(tokens: int) -> int:
    """Side of the square of patches among tokens, one of which may be the class token; 0 if it is not a square."""
    return next((side for extra in (1, 0) if (side := math.isqrt(tokens - extra)) ** 2 == tokens - extra), 0)
