"""Feature pyramids: maps of several sizes with the same number of channels, from the maps of an encoder."""

from collections import OrderedDict

from timm.layers.norm import LayerNorm2d
from torch import Tensor, nn
from torch.nn.functional import interpolate
from torchvision.ops import FeaturePyramidNetwork
from torchvision.ops.feature_pyramid_network import LastLevelMaxPool

from cacr.encoders.stages import Stages


class Pyramid(nn.Module):
    """The maps of an encoder, combined from coarse to fine, and a coarsest one by pooling (FPN).

    Attributes:
        strides: Strides of the maps, the finest first.
        out_channels: Number of channels of each map.
    """

    def __init__(self, body: Stages, channels: int) -> None:
        super().__init__()
        self.body = body
        self.fpn = FeaturePyramidNetwork(list(body.channels), channels, LastLevelMaxPool())
        self.strides = (*body.strides, 2 * body.strides[-1])
        self.out_channels = channels

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """Maps by name, the finest first."""
        maps: dict[str, Tensor] = self.fpn(OrderedDict((str(i), m) for i, m in enumerate(self.body(images))))
        return maps


class SimplePyramid(nn.Module):
    """Finer and coarser maps from the single map of a plain transformer, as in ViTDet, and a coarsest one by pooling.

    The map of stride s is upsampled by transposed convolutions to s / 4 and s / 2, kept, and pooled to 2 s; a 1x1 and
    a
    3x3 convolution follow, each with a norm over the channels. Patches of 14 pixels count as 16: their map is
    resampled first.

    Attributes:
        strides: Strides of the maps, the finest first.
        out_channels: Number of channels of each map.
    """

    def __init__(self, body: Stages, channels: int) -> None:
        super().__init__()
        self.body = body
        (dim,), (stride,) = body.channels, body.strides
        self.resample = body.reduction / stride
        self.kept = stride
        scales = {factor: made for factor, made in _scales(dim).items() if stride * factor >= 1}
        self.scales = nn.ModuleList(
            nn.Sequential(*layers, *_joined(width, channels)) for layers, width in scales.values()
        )
        self.pool = LastLevelMaxPool()
        self.strides = (*(int(stride * factor) for factor in scales), 4 * stride)
        self.out_channels = channels

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """Maps by name, the finest first."""
        (features,) = self.body(images)
        if self.resample != 1:
            features = interpolate(features, scale_factor=self.resample, mode="bilinear")
            # The last patches extend beyond the border of the image.
            rows, columns = (-(-side // self.kept) for side in images.shape[-2:])
            features = features[..., :rows, :columns]
        maps = [scale(features) for scale in self.scales]
        names = [str(number) for number in range(len(maps))]
        given, names = self.pool(maps, maps, names)
        return OrderedDict(zip(names, given, strict=True))


def _scales(dim: int) -> dict[float, tuple[list[nn.Module], int]]:
    """Layers and their number of channels by the factor on the stride of their map."""
    half, quarter = dim // 2, dim // 4
    return {
        1 / 4: ([_spread(dim, half), LayerNorm2d(half), nn.GELU(), _spread(half, quarter)], quarter),
        1 / 2: ([_spread(dim, half)], half),
        1: ([], dim),
        2: ([nn.MaxPool2d(2, ceil_mode=True)], dim),
    }


def _spread(into: int, out: int) -> nn.Module:
    return nn.ConvTranspose2d(into, out, 2, stride=2)


def _joined(into: int, channels: int) -> list[nn.Module]:
    """Convert a map's number of channels to that of the pyramid."""
    return [
        nn.Conv2d(into, channels, 1, bias=False),
        LayerNorm2d(channels),
        nn.Conv2d(channels, channels, 3, padding=1, bias=False),
        LayerNorm2d(channels),
    ]
