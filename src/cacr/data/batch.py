"""A batch of images."""

from dataclasses import dataclass, replace

import torch

from cacr.data.errors import Problem
from cacr.data.source import Captions


@dataclass(frozen=True)
class Batch:
    """Images with their numbers.

    Attributes:
        images: input of :class:`cacr.views.Views`. From a source in memory: one raw uint8 tensor (n, 3, height,
            width). From other sources: the results of ``crop``, stacked, one uint8 tensor (views, n, 3, size, size)
            per group of views.
        index: (n,) numbers of the images in the source.
        labels: (n,) their classes, or None.
        captions: their captions, or None.
        unreadable: images of this batch that could not be decoded.
    """

    images: torch.Tensor | list[torch.Tensor]
    index: torch.Tensor
    labels: torch.Tensor | None = None
    captions: tuple[Captions, ...] | None = None
    unreadable: tuple[Problem, ...] = ()

    def __len__(self) -> int:
        return len(self.index)

    def pin_memory(self) -> "Batch":
        """The same batch in page-locked memory, which a GPU can copy without waiting."""
        return replace(
            self,
            images=self.images.pin_memory()
            if isinstance(self.images, torch.Tensor)
            else [image.pin_memory() for image in self.images],
            index=self.index.pin_memory(),
            labels=None if self.labels is None else self.labels.pin_memory(),
        )
