"""The AlexNet for small images of the paper's CIFAR and STL-10 experiments."""

from collections import OrderedDict

from torch import nn

from cacr.encoders.registry import ENCODERS
from cacr.errors import UserError

SMALLEST = 15
"""Smallest side in pixels, which leaves one pixel after three 3x3 poolings of stride 2."""


def pooled(size: int) -> int:
    """Side of the output of a 3x3 max-pool of stride 2."""
    return (size - 3) // 2 + 1


def layer_widths(width: float) -> list[int]:
    """Output widths of conv1, conv2, conv3 and conv4, conv5, and of fc6 and fc7."""
    return [max(1, round(width * full)) for full in (96, 192, 384, 192, 4096)]


@ENCODERS.register("small_alexnet")
class SmallAlexNet(nn.Sequential):
    """AlexNet of five 3x3 convolutions for small images (32, 48 or 64 pixels); fc7 features.

    Blocks 0 to 4 are convolutions, 5 and 6 are fc6 and fc7, each with batch norm and ReLU. Block 7, fc8, is
    the ``linear`` head. Backbone and head together have 27,221,088 parameters for 32 pixels and 58,678,368 for 64.

    Args:
        image_size: Side of the images in pixels, at least 15.
        width: Factor on the number of channels of every layer.
        weights: ``paper``: from N(0, 0.02); ``kaiming``: from N(0, 2 / inputs). Before batch norm the scale does not
            change the output, but it changes how fast a layer learns: small weights change direction faster.
        channels: Number of channels of the images.
    """

    def __init__(
        self, *, image_size: int, width: float = 1.0, weights: str = "paper", channels: int = 3
    ) -> None:
        if image_size < SMALLEST:
            raise UserError(
                f"small_alexnet takes images of at least {SMALLEST} pixels, not {image_size}, because of its three "
                "poolings: choose a larger image_size"
            )
        c1, c2, c3, c5, wide = layer_widths(width)
        side = pooled(pooled(pooled(image_size)))
        super().__init__(
            OrderedDict(
                conv1=_convolution(channels, c1, pool=True),
                conv2=_convolution(c1, c2, pool=True),
                conv3=_convolution(c2, c3),
                conv4=_convolution(c3, c3),
                conv5=_convolution(c3, c5, pool=True),
                fc6=nn.Sequential(nn.Flatten(), *_dense(c5 * side * side, wide)),
                fc7=nn.Sequential(*_dense(wide, wide)),
            )
        )
        self.apply(_from_paper if weights == "paper" else _by_kaiming)


def _convolution(channels_in: int, channels_out: int, *, pool: bool = False) -> nn.Sequential:
    layers: list[nn.Module] = [
        nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(channels_out),
        nn.ReLU(inplace=True),
    ]
    return nn.Sequential(*layers, nn.MaxPool2d(3, 2)) if pool else nn.Sequential(*layers)


def _dense(features_in: int, features_out: int) -> list[nn.Module]:
    return [
        nn.Linear(features_in, features_out, bias=False),
        nn.BatchNorm1d(features_out),
        nn.ReLU(inplace=True),
    ]


def _by_kaiming(layer: nn.Module) -> None:
    """Weights from N(0, 2 / inputs)."""
    if isinstance(layer, nn.Conv2d | nn.Linear):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")


def _from_paper(layer: nn.Module) -> None:
    """Weights from N(0, 0.02); batch norm starts at 1 and 0 by default."""
    if isinstance(layer, nn.Conv2d | nn.Linear):
        nn.init.normal_(layer.weight, std=0.02)
