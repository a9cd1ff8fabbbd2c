"""An encoder: a backbone together with what one must know to use it."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from cacr.config import FORMAT
from cacr.encoders.preprocess import ImageLike, centre_crop, normalise, to_pil
from cacr.encoders.reader import Reader


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
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    preset: str | None = None
    upright: bool = True
    training: dict[str, Any] = field(default_factory=dict)
    format: int = FORMAT


class Encoder(nn.Module):
    """Images (n, 3, s, s), normalised, to features (n, feature_dim).

    Attributes:
        backbone: The network; its state dict is what ``encoder.safetensors`` holds.
        info: Architecture, image size, normalisation and training.
        reader: How its features are to be compared; None where nobody has fitted one.
    """

    def __init__(self, backbone: nn.Module, info: EncoderInfo) -> None:
        super().__init__()
        self.backbone = backbone
        self.info = info
        self.reader: Reader | None = None

    @property
    def feature_dim(self) -> int:
        """Dimension of the features."""
        return self.info.feature_dim

    def forward(self, images: Tensor) -> Tensor:
        """Features (n, feature_dim) of normalised images (n, 3, s, s)."""
        features: Tensor = self.backbone(images)
        return features

    def preprocess(self, image: ImageLike) -> Tensor:
        """The tensor (3, s, s) of one image: resized, its centre cut out, normalised.

        Args:
            image: A PIL image, a uint8 array (h, w, 3), a uint8 tensor (3, h, w), or the path of a file.
        """
        info = self.info
        cropped = centre_crop(to_pil(image), info.resize or info.image_size, info.image_size)
        return normalise(cropped, info.mean, info.std)
