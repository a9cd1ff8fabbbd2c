"""Change pixels after cropping: in the decoding process, or else after the views are made."""

from collections.abc import Callable

import torch
from PIL import Image
from torch import Tensor

Change = Callable[[Tensor, int], Tensor]
"""Function of one image, uint8 (3, height, width), and a seed, that returns the changed image; can be pickled."""


class ChangedCrop:
    """A crop of the loader, followed by a change of the pixels.

    Args:
        crop: (image, generator) -> uint8 (views, 3, size, size) for each size.
        change: change of one image.
    """

    def __init__(
        self, crop: Callable[[Image.Image | Tensor, torch.Generator], list[Tensor]], change: Change
    ) -> None:
        self._crop, self._change = crop, change

    def __call__(self, image: Image.Image | Tensor, generator: torch.Generator) -> list[Tensor]:
        """Crop, then change the pixels."""
        return [changed(part, self._change, generator) for part in self._crop(image, generator)]


def changed(images: Tensor, change: Change, generator: torch.Generator) -> Tensor:
    """Images, uint8 (n, 3, height, width), each changed with a seed from the generator."""
    seeds = torch.randint(2**31, (len(images),), generator=generator).tolist()
    return torch.stack([change(image, seed) for image, seed in zip(images, seeds, strict=True)])
