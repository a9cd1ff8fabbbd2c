"""Features of the images of a source, by an encoder at rest."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cacr.data import ArraySource, Loader, Problem, Source
from cacr.encoders import Encoder, EncoderInfo
from cacr.errors import UserError
from cacr.evaluation.machine import Machine
from cacr.randomness import generator
from cacr.views import PRESETS, Augmentation, Views

Progress = Callable[[int, int], None]
"""Called with what is done and what there is to do."""


MAX_UNREADABLE = 0.1


@dataclass(frozen=True)
class Features:
    """What an encoder makes of a source.

    Attributes:
        values: (n, feature_dim) float32, on the CPU.
        index: (n,) number of each image in the source.
        problems: Images that could not be read; they have no features.
    """

    values: Tensor
    index: Tensor
    problems: tuple[Problem, ...] = ()


class ImageLoader:
    """Batches of normalised images, every one seen through one augmentation.

    Args:
        info: Normalisation of the encoder that will see them.
        source: The images.
        view: What an image goes through.
        machine: Where and in what portions.
        shuffle: Another order in every epoch; otherwise that of the source.
        seed: Of order and augmentation.
        max_unreadable: Share of unreadable images that is tolerated.
    """

    def __init__(
        self,
        info: EncoderInfo,
        source: Source,
        view: Augmentation,
        machine: Machine,
        *,
        shuffle: bool = False,
        seed: int = 0,
        max_unreadable: float = MAX_UNREADABLE,
    ) -> None:
        self.seed = seed
        self._arrays = isinstance(source, ArraySource)
        self._views = Views([view], info.mean, info.std, device=machine.device)
        self._loader = Loader(
            source,
            batch_size=machine.batch_size,
            seed=seed,
            workers=machine.workers,
            crop=None if self._arrays else self._views.crop,
            shuffle=shuffle,
            at_least=view.resize,
            max_unreadable=max_unreadable,
            pin_memory=machine.device.type == "cuda",
        )

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Images that could not be read so far."""
        return tuple(self._loader.unreadable.values())

    def epoch(self, number: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Images (n, 3, s, s) on the device and their numbers (n,), batch by batch."""
        draws = generator("probe views", self.seed, number)
        for batch in self._loader.epoch(number):
            if self._arrays:
                ((images,),) = self._views(batch.images[0], draws)
            else:
                ((images,),) = self._views.colour(batch.images, draws)
            yield images, batch.index


class FeatureLoader(ImageLoader):
    """Batches of features; the arguments are those of :class:`ImageLoader`, but for the encoder.

    Args:
        encoder: Moved to the machine's device and put into evaluation mode.
        source: The images.
        view: What an image goes through.
        machine: Where and in what portions.
        options: Of the image loader.
    """

    def __init__(
        self, encoder: Encoder, source: Source, view: Augmentation, machine: Machine, **options: Any
    ) -> None:
        super().__init__(encoder.info, source, view, machine, **options)
        self.encoder = encoder.to(machine.device, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]

    def epoch(self, number: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Features (n, feature_dim) on the device and the images' numbers (n,), batch by batch."""
        for images, index in super().epoch(number):
            with torch.inference_mode():
                features = self.encoder(images).float()
            yield features, index


def centre_view(info: EncoderInfo) -> Augmentation:
    """The one view of evaluation: an image resized and its centre cut out as ``encoder.preprocess`` does it."""
    return Augmentation(info.image_size, scale=None, resize=info.resize or info.image_size, flip=0.0)


def usual_flip(info: EncoderInfo) -> float:
    """Share of mirrored crops in training views of an encoder's classifier: as in its own training views."""
    return PRESETS[info.preset].views[0].flip if info.preset is not None and info.preset in PRESETS else 0.5


def encode(
    encoder: Encoder,
    source: Source,
    machine: Machine | None = None,
    progress: Progress | None = None,
    *,
    max_unreadable: float = MAX_UNREADABLE,
) -> Features:
    """Features of every image that can be read, in the order of the source.

    An image is resized and its centre cut out as ``encoder.preprocess`` does it.

    Args:
        encoder: Moved to the machine's device and put into evaluation mode.
        source: The images.
        machine: Where and in what portions.
        progress: Called after each batch with the number of images done and in all.
        max_unreadable: Share of unreadable images that is tolerated.

    Raises:
        UserError: more than ``max_unreadable`` of the images cannot be read, or none can.
    """
    view = centre_view(encoder.info)
    loader = FeatureLoader(encoder, source, view, machine or Machine(), max_unreadable=max_unreadable)
    values, index, done = [], [], 0
    for features, numbers in loader.epoch(0):
        values.append(features.cpu())
        index.append(numbers)
        done += len(numbers)
        if progress is not None:
            progress(done, len(source))
    if not values:
        raise UserError(f"no image of {source.name} can be read; for example {loader.problems[0]}")
    return Features(torch.cat(values), torch.cat(index), loader.problems)
