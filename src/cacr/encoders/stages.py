"""The feature maps of an encoder, from fine to coarse, for detectors."""

import copy
import math
from collections.abc import Callable, Sequence
from inspect import signature
from itertools import pairwise
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from cacr.encoders.build import build_encoder, is_transformer
from cacr.encoders.encoder import Encoder
from cacr.encoders.small_alexnet import SmallAlexNet
from cacr.errors import UserError

MOST_STAGES = 4
"""Number of maps of a detector: those with strides 4, 8, 16 and 32 of a ResNet."""

PROBE = 128
"""Side in pixels of the image on which strides and channels are measured."""

_ALEXNET = ("conv1", "conv2", "conv5")

_ANY_SIZE = ({"dynamic_img_size": True, "dynamic_img_pad": True}, {"strict_img_size": False})
"""Arguments of timm's transformers for images of any size, with interpolated positions: plain ones, and Swin."""

WORKING = (
    "ResNets, ConvNeXt and other convolutional encoders, plain transformers (vit, deit, eva02) and Swin work"
)
"""Encoders that work, for messages."""

Frozen = int | Literal["all"]
"""Number of first stages that are not trained; the stem is the first."""


class Stages(nn.Module):
    """Normalised images (n, 3, h, w) to feature maps (n, channels_i, h / strides_i, w / strides_i).

    A plain transformer has maps of only one size: then there is one map, its last tokens after the last norm, which
    are also the basis of the encoder's features.

    Args:
        encoder: Its backbone is copied; the encoder itself does not change.
        frozen: Number of first stages whose weights and statistics do not change; ``all``: every stage.
        hold_statistics: Whether batch norm keeps its statistics and weights in all stages.
        most: Largest number of maps, counted from the last.

    Attributes:
        backbone: The copy.
        names: The modules whose outputs are the maps.
        channels: Channels of each map.
        strides: Image pixels per map pixel, rounded to a power of two.
        reduction: The same for the last map, exactly.

    Raises:
        UserError: the encoder has no such maps.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        frozen: Frozen = 0,
        hold_statistics: bool = False,
        most: int = MOST_STAGES,
    ) -> None:
        super().__init__()
        if encoder.info.channels != 3:
            raise UserError(
                f"this {encoder.info.encoder} takes {encoder.info.channels} channels, but detectors need RGB"
            )
        every = stage_names(encoder)
        self.backbone = _copied(encoder)
        self._normed = False
        sizes = self._measured(every)
        # If several maps have the same stride, the last one is used.
        last = [i for i, (a, b) in enumerate(pairwise(sizes)) if a[1] != b[1]] + [len(sizes) - 1]
        self._indices = last[-most:]
        self._normed = len(last) == 1
        self.reduction = _reduction(self.backbone, sizes[-1][1])
        self.names = tuple(every[i] for i in self._indices)
        self.channels = tuple(sizes[i][0] for i in self._indices)
        self.strides = tuple(sizes[i][1] for i in self._indices)
        for parameter in self.backbone.parameters():
            parameter.requires_grad_(True)
        self._held: list[nn.Module] = []
        self._freeze(_first_modules(self.backbone, every, frozen, encoder.info.encoder))
        if hold_statistics:
            self._freeze([m for m in self.backbone.modules() if isinstance(m, _BatchNorm)])

    def forward(self, images: Tensor) -> list[Tensor]:
        """The maps, the finest first."""
        return _maps(self.backbone, images, self._indices, normed=self._normed)

    def keep_only(self, name: str) -> None:
        """Return only one map; later layers are not computed."""
        place = self.names.index(name)
        self._indices = [self._indices[place]]
        self.names, self.channels = (self.names[place],), (self.channels[place],)
        self.strides = (self.strides[place],)

    def train(self, mode: bool = True) -> Self:
        """Set the training mode, except for frozen parts."""
        super().train(mode)
        for module in self._held:
            module.training = False  # not eval(): a frozen module may contain a trained one
        return self

    def _freeze(self, modules: Sequence[nn.Module]) -> None:
        for module in modules:
            self._held.append(module)
            for parameter in module.parameters(recurse=False):
                parameter.requires_grad_(False)

    @torch.no_grad()
    def _measured(self, names: Sequence[str]) -> list[tuple[int, int]]:
        """Channels and stride after each stage, measured on a black image."""
        self.backbone.eval()
        maps = _maps(self.backbone, torch.zeros(1, 3, PROBE, PROBE), range(len(names)), normed=False)
        return [(m.shape[1], 2 ** round(math.log2(PROBE / m.shape[-1]))) for m in maps]


def stage_names(encoder: Encoder) -> tuple[str, ...]:
    """The modules of a backbone whose outputs are its feature maps, in order.

    Raises:
        UserError: they are not known.
    """
    name, backbone = encoder.info.encoder, encoder.backbone
    if isinstance(backbone, SmallAlexNet):
        return _ALEXNET
    names = tuple(entry["module"] for entry in getattr(backbone, "feature_info", ()))
    handed_out = hasattr(backbone, "forward_intermediates")
    if not names or not (handed_out or _are_modules(backbone, names)):
        raise UserError(f"detection needs the stages of {name}, which are not known in timm: {WORKING}")
    return names


def _are_modules(backbone: nn.Module, names: Sequence[str]) -> bool:
    """Whether each name is that of a module; some of timm's names are not."""
    modules = dict(backbone.named_modules())
    return hasattr(backbone, "forward_features") and all(name in modules for name in names)


def _copied(encoder: Encoder) -> nn.Module:
    """A copy of an encoder's backbone that takes images of any size.

    Raises:
        UserError: it takes only images of one size.
    """
    info, backbone = encoder.info, encoder.backbone
    if not is_transformer(info.encoder):
        return copy.deepcopy(backbone)
    takes = signature(type(backbone)).parameters
    further = next((names for names in _ANY_SIZE if names.keys() <= takes.keys()), None)
    if further is None:
        raise UserError(
            f"{info.encoder} takes images of only one size, but detectors need several: {WORKING}"
        )
    with torch.random.fork_rng(devices=[]):  # its weights are replaced: do not change the random state
        made = build_encoder(info.encoder, image_size=info.image_size, options={**info.options, **further})
    made.backbone.load_state_dict(backbone.state_dict())
    return made.backbone


def _reduction(backbone: nn.Module, stride: int) -> int:
    """Image pixels per pixel of the last map; ``stride`` if the backbone does not say."""
    info = getattr(backbone, "feature_info", None)
    return stride if info is None else int(info[-1]["reduction"])


def _maps(backbone: nn.Module, images: Tensor, indices: Sequence[int], *, normed: bool) -> list[Tensor]:
    if isinstance(backbone, SmallAlexNet):
        x, found = images, []
        for layer, block in backbone.named_children():
            x = block(x)
            if layer in _ALEXNET:
                found.append(x)
            if layer == _ALEXNET[-1]:
                break
        return [found[i] for i in indices]
    if not hasattr(backbone, "forward_intermediates"):
        described: Any = backbone.feature_info
        return _hooked(backbone, images, [described[i]["module"] for i in indices])
    maps: list[Tensor] = backbone.forward_intermediates(  # type: ignore[operator]
        images, indices=list(indices), stop_early=True, intermediates_only=True, norm=normed
    )
    return maps


def _hooked(backbone: nn.Module, images: Tensor, names: Sequence[str]) -> list[Tensor]:
    """The outputs of some modules, for models that do not return them, as in timm's ``features_only``."""
    found: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[[nn.Module, object, Tensor], None]:
        def hook(module: nn.Module, inputs: object, output: Tensor) -> None:
            found[name] = output

        return hook

    hooks = [backbone.get_submodule(name).register_forward_hook(keep(name)) for name in names]
    try:
        backbone.forward_features(images)  # type: ignore[operator]
    finally:
        for hook in hooks:
            hook.remove()
    return [found[name] for name in names]


def _first_modules(
    backbone: nn.Module, names: Sequence[str], frozen: Frozen, encoder: str
) -> list[nn.Module]:
    """The backbone's own weights and all modules up to the end of a stage, in the order of their use."""
    if frozen == "all":
        return list(backbone.modules())
    if frozen > len(names):
        raise UserError(f"{encoder} has only {len(names)} stages, not freeze={frozen}: use freeze=all")
    if frozen == 0:
        return []
    last = names[frozen - 1]
    everything = list(backbone.named_modules())
    end = max(i for i, (name, _) in enumerate(everything) if name == last or name.startswith(f"{last}."))
    # Weights of the backbone itself (a transformer's positions and class token) come before its first module.
    return [module for _, module in everything[: end + 1]]
