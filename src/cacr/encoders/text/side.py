"""The text side of an encoder: maps sentences and image features to unit vectors of one space."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from cacr.encoders.text.tower import TextTower

AT_ONCE = 4096
"""Features per batch."""


@dataclass(frozen=True)
class TextSide:
    """Text encoder and heads, which make images and sentences comparable.

    Attributes:
        tower: Sentences -> text features; in evaluation mode.
        head: Text features -> embeddings.
        image_head: Features of the image encoder -> embeddings of the same dimension.
        scale: Factor on cosines before a softmax over sentences.
    """

    tower: TextTower
    head: nn.Module
    image_head: nn.Module
    scale: float

    @torch.inference_mode()
    def of_texts(self, sentences: Sequence[str]) -> Tensor:
        """Unit vectors (n, dim) of sentences, on the CPU."""
        return self.of_text_features(self.tower.encode(sentences))

    @torch.inference_mode()
    def of_text_features(self, features: Tensor) -> Tensor:
        """Unit vectors (n, dim) of features (n, text_dim) of the tower, on the CPU."""
        return _through(self.head, features)

    @torch.inference_mode()
    def of_images(self, features: Tensor) -> Tensor:
        """Unit vectors (n, dim) of features (n, feature_dim) of the image encoder, on the CPU."""
        return _through(self.image_head, features)


def _through(head: nn.Module, features: Tensor) -> Tensor:
    head.eval()
    device = next((weight.device for weight in head.parameters()), torch.device("cpu"))
    parts = [head(part.to(device)).float().cpu() for part in torch.split(features, AT_ONCE)]
    return normalize(torch.cat(parts), dim=1) if parts else torch.empty(0, 0)
