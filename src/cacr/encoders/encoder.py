"""An encoder: a backbone with everything that is needed to use it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor, nn

from cacr.config import FORMAT
from cacr.encoders.preprocess import ImageLike, centre_crop, normalise, prepare_levels, to_pil
from cacr.encoders.reader import Reader
from cacr.errors import UserError
from cacr.feature_view import Interpolation

if TYPE_CHECKING:
    from cacr.encoders.text.side import TextSide


@dataclass(frozen=True)
class LoadedWeights:
    """How the tensors of a file were loaded; names are those of the encoder or of the file.

    Attributes:
        origin: Description of where they come from: a path, and the recognised layout.
        loaded: Tensors of the encoder that were replaced.
        missing: Tensors of the encoder that are not in the file, or have another shape there.
        unexpected: Tensors of the file that the encoder does not use, such as a head.
    """

    origin: str
    loaded: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """One line for the user: what was loaded, unused and missing."""
        if not self.loaded:
            return self.origin
        left = _some("unused", self.unexpected) or "none unused"
        return ", ".join(
            [f"{len(self.loaded):,} tensors from {self.origin}", left]
            + [text for text in [_some("missing", self.missing)] if text]
        )


def _some(what: str, names: tuple[str, ...]) -> str:
    """``8 unused (fc.weight, fc.bias ...)``; empty without names."""
    more = " ..." if len(names) > 2 else ""
    return f"{len(names):,} {what} ({', '.join(names[:2])}{more})" if names else ""


@dataclass(frozen=True)
class EncoderInfo:
    """The content of ``encoder.json``.

    Attributes:
        encoder: Name of the architecture.
        image_size: Side in pixels of its images.
        feature_dim: Dimension of its features.
        width: Factor on the channels of small_alexnet.
        resize: Shorter side in pixels before the centre crop; None for ``image_size``.
        interpolation: Resize filter.
        options: Arguments of timm's model that are not part of its name, such as ``num_heads``.
        mean: Mean per channel in [0, 1], subtracted from images.
        std: Standard deviation per channel, by which images are divided.
        preset: The views it was trained with; None if it was not trained.
        upright: Whether its training images were assumed to have an upward direction.
        training: A summary of its training: numbers of images, views and steps, objective, seed, ...
        format: Format version of the file.
    """

    encoder: str
    image_size: int
    feature_dim: int
    width: float = 1.0
    resize: int | None = None
    interpolation: Interpolation = "bilinear"
    options: dict[str, int] = field(default_factory=dict)
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    preset: str | None = None
    upright: bool = True
    training: dict[str, Any] = field(default_factory=dict)
    format: int = FORMAT

    @property
    def channels(self) -> int:
        """Number of channels of its images."""
        return len(self.mean)


class Encoder(nn.Module):
    """Maps normalised images (n, 3, s, s) to features (n, feature_dim).

    Attributes:
        backbone: The network; its state dict is the content of ``encoder.safetensors``.
        info: Architecture, image size, normalisation and training.
        reader: Prepares its features for comparisons; None if none was fitted.
        load_text: Loads its text encoder, if it was trained with captions; otherwise None.
        load_head1: Loads the first layer of the head that it was trained with, if it was stored; otherwise None.
        loaded: How the tensors of a file of other software were loaded; None for files of cacr.
    """

    def __init__(self, backbone: nn.Module, info: EncoderInfo) -> None:
        super().__init__()
        self.backbone = backbone
        self.info = info
        self.reader: Reader | None = None
        self.load_text: Callable[[], TextSide] | None = None
        self._text: TextSide | None = None
        self.load_head1: Callable[[], nn.Module] | None = None
        self.loaded: LoadedWeights | None = None

    @property
    def feature_dim(self) -> int:
        """Dimension of the features."""
        return self.info.feature_dim

    def forward(self, images: Tensor) -> Tensor:
        """Features (n, feature_dim) of normalised images (n, 3, s, s)."""
        features: Tensor = self.backbone(images)
        return features

    @property
    def text(self) -> TextSide:
        """Its text encoder and heads, loaded when they are first used.

        Raises:
            UserError: it has none.
        """
        if self._text is None:
            if self.load_text is None:
                raise UserError(
                    f"this encoder ({self.info.encoder}) cannot encode text: it was trained without captions. Train "
                    "one on images with captions (--method clip), or give the folder of a CLIP of other software"
                )
            self._text = self.load_text()
        return self._text

    def preprocess(self, image: ImageLike) -> Tensor:
        """The tensor (channels, s, s) of one image: resized, cropped at the centre, normalised.

        Args:
            image: A PIL image, a uint8 array (h, w, 3), a uint8 tensor (3, h, w), or the path of a file; for an
                encoder with other channels or 16 bits, an array (h, w, channels) of uint8 or uint16.
        """
        info = self.info
        if isinstance(image, np.ndarray) and (info.channels != 3 or image.dtype == np.uint16):
            return prepare_levels(image, info.resize or info.image_size, info.image_size, info.mean, info.std)
        if info.channels != 3:
            raise UserError(
                f"this encoder takes {info.channels} channels: give an array (height, width, {info.channels})"
            )
        shorter = info.resize or info.image_size
        cropped = centre_crop(to_pil(image), shorter, info.image_size, info.interpolation)
        return normalise(cropped, info.mean, info.std)
