"""ResNets for small images: a 3x3 stem without max-pool up to 64 pixels."""

from torch import nn

from cacr.encoders.registry import ENCODERS
from cacr.encoders.timm_models import create, stem_options

LARGEST_SMALL = 64
"""Largest side in pixels for the small stem; the ordinary stem divides the side by four."""

RESNETS = ("resnet18", "resnet50")
"""Encoders of this file; for larger images they are timm's own."""


@ENCODERS.register("resnet18")
def resnet18(*, image_size: int, pretrained: bool = False, channels: int = 3) -> nn.Module:
    """ResNet-18; a 3x3 stem without max-pool for images up to 64 pixels."""
    return _resnet("resnet18", image_size, pretrained, channels)


@ENCODERS.register("resnet50")
def resnet50(*, image_size: int, pretrained: bool = False, channels: int = 3) -> nn.Module:
    """ResNet-50; a 3x3 stem without max-pool for images up to 64 pixels."""
    return _resnet("resnet50", image_size, pretrained, channels)


def _resnet(name: str, image_size: int, pretrained: bool, channels: int) -> nn.Module:
    # Residual branches start as in torchvision, not at zero, as in the published experiments on small images.
    backbone = create(name, pretrained=pretrained, zero_init_last=False, **stem_options(channels))
    if image_size <= LARGEST_SMALL:
        stem = nn.Conv2d(channels, 64, kernel_size=3, padding=1, bias=False)
        nn.init.kaiming_normal_(stem.weight, mode="fan_out", nonlinearity="relu")
        backbone.conv1 = stem
        backbone.maxpool = nn.Identity()
    return backbone
