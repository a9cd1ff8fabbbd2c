"""An encoder: a backbone together with what one must know to use it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from torch import Tensor, nn

from cacr.config import FORMAT
from cacr.encoders.preprocess import ImageLike, centre_crop, normalise, prepare_levels, to_pil
from cacr.encoders.reader import Reader
from cacr.errors import UserError

if TYPE_CHECKING:
    from cacr.encoders.text.side import TextSide

Interpolation = Literal["bilinear", "bicubic"]


@dataclass(frozen=True)
class LoadedWeights:
    """What became of the tensors of a file; every name is one of the encoder's own or of the file's.

    Attributes:
        origin: Where they come from, in words: a path, and the layout that was recognised.
        loaded: Tensors of the encoder that were replaced.
        missing: Tensors of the encoder that the file does not have, or has in another shape.
        unexpected: Tensors of the file that the encoder has no place for, such as a head.
    """

    origin: str
    loaded: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """One line for the user: what was loaded, left over and missing."""
        if not self.loaded:
            return self.origin
        left = _some("left over", self.unexpected) or "none left over"
        return ", ".join(
            [f"{len(self.loaded):,} tensors from {self.origin}", left]
            + [text for text in [_some("missing", self.missing)] if text]
        )


def _some(what: str, names: tuple[str, ...]) -> str:
    """``8 left over (fc.weight, fc.bias ...)``; empty for no names."""
    more = " ..." if len(names) > 2 else ""
    return f"{len(names):,} {what} ({', '.join(names[:2])}{more})" if names else ""


@dataclass(frozen=True)
class EncoderInfo:
    """What ``encoder.json`` says about an encoder.

    Attributes:
        encoder: Name of the architecture.
        image_size: Side in pixels of the images it takes.
        feature_dim: Dimension of its features.
        width: Factor on the channels of small_alexnet.
        resize: Shorter side in pixels to which an image is resized before its centre is cut out; None for
            ``image_size``.
        interpolation: Filter with which it is resized.
        options: Arguments of timm's model that its name does not say, such as ``num_heads``.
        mean: Of each channel in [0, 1], subtracted from the images it takes.
        std: Of each channel; images are divided by it.
        preset: The views it was trained with; None if it was not trained.
        upright: Whether the images that it was trained on were taken to have an up.
        training: A summary of its training: counts of images, views and steps, objective, seed, ...
        format: Version of the file.
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
        """Of the images that it takes."""
        return len(self.mean)


class Encoder(nn.Module):
    """Images (n, 3, s, s), normalised, to features (n, feature_dim).

    Attributes:
        backbone: The network; its state dict is what ``encoder.safetensors`` holds.
        info: Architecture, image size, normalisation and training.
        reader: How its features are to be compared; None where nobody has fitted one.
        load_text: Loads its text side, where it was trained with captions; None where it was not.
        load_head1: Loads the first layer of the head that it was trained with, where that was kept; None where not.
        loaded: What became of the tensors of a file that this package did not write; None of its own files.
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
        """What compares its images with sentences; loaded when it is first asked for.

        Raises:
            UserError: it has none.
        """
        if self._text is None:
            if self.load_text is None:
                raise UserError(
                    f"this encoder ({self.info.encoder}) knows no words: it was trained on images alone. Train one on "
                    "images with captions (--method clip), or give the folder of a finished CLIP"
                )
            self._text = self.load_text()
        return self._text

    def preprocess(self, image: ImageLike) -> Tensor:
        """The tensor (channels, s, s) of one image: resized, its centre cut out, normalised.

        Args:
            image: A PIL image, a uint8 array (h, w, 3), a uint8 tensor (3, h, w), or the path of a file; for an encoder
                of other channels, or of 16 bits, an array (h, w, channels) of uint8 or uint16.
        """
        info = self.info
        if isinstance(image, np.ndarray) and (info.channels != 3 or image.dtype == np.uint16):
            return prepare_levels(image, info.resize or info.image_size, info.image_size, info.mean, info.std)
        if info.channels != 3:
            raise UserError(
                f"this encoder takes images of {info.channels} channels: give an array (height, width, {info.channels})"
            )
        shorter = info.resize or info.image_size
        cropped = centre_crop(to_pil(image), shorter, info.image_size, info.interpolation)
        return normalise(cropped, info.mean, info.std)
