"""Encode the images of a source with an encoder in evaluation mode."""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from cacr.data import Loader, Problem, Source
from cacr.data.order import share
from cacr.data.prepare import Progress
from cacr.distributed import rank, world_size
from cacr.encoders import Encoder, EncoderInfo
from cacr.errors import UserError
from cacr.features.changed import Change, ChangedCrop, changed
from cacr.features.machine import Machine
from cacr.features.processes import gather_objects, gather_rows
from cacr.features.room import fitted
from cacr.randomness import generator
from cacr.views import PRESETS, Augmentation, Views
from cacr.views.pixels import as_bytes, normalised, unnormalised

MAX_UNREADABLE = 0.1
"""Default share of unreadable images that is accepted."""


class NotFiniteFeaturesError(UserError):
    """Features of an encoder are not finite: its weights are damaged, or its training diverged."""


@dataclass(frozen=True)
class Features:
    """Features of a source.

    Attributes:
        values: (n, feature_dim) float32, on the CPU.
        index: (n,) number of each image in the source.
        problems: Unreadable images; they have no features.
        streamed: Whether the values are in a temporary file, and should be read in blocks.
        cached: Whether they come from the cache, so that nothing was encoded.
    """

    values: Tensor
    index: Tensor
    problems: tuple[Problem, ...] = ()
    streamed: bool = False
    cached: bool = False


class ImageLoader:
    """Batches of normalised images, all with the same augmentation.

    Args:
        info: Has the normalisation of the encoder.
        source: The images.
        view: The augmentation.
        machine: Device, batch size and workers.
        shuffle: A new order in every epoch; otherwise the order of the source.
        seed: Seed of order and augmentation.
        max_unreadable: Largest accepted share of unreadable images.
        shared: With several processes, each gets a share of every batch of files.
        change: Change of the pixels of each view; only for images of 8 bits and three channels.
    """

    def __init__(
        self,
        info: EncoderInfo,
        source: Source,
        view: Augmentation,
        machine: Machine,
        *,
        shuffle: bool = False,
        keep_small: bool = False,
        seed: int = 0,
        max_unreadable: float = MAX_UNREADABLE,
        shared: bool = False,
        change: Change | None = None,
    ) -> None:
        if source.channels != info.channels:
            raise UserError(
                f"{source.name} has images with {source.channels} channels, but this encoder takes {info.channels}: "
                "continue training on these images (`cacr pretrain DATA --init ENCODER`), which adapts its first layer"
            )
        self.seed = seed
        self._in_memory = source.image_size is not None
        # Images in memory form the same batch in every process, so that views do not depend on the number of
        # processes; each
        # file is decoded by one process.
        alone = self._in_memory or not shared
        self._views = Views([view], info.mean, info.std, device=machine.device)
        self._change = change
        self._loader = Loader(
            source,
            batch_size=machine.batch_size,
            seed=seed,
            rank=0 if alone else rank(),
            world_size=1 if alone else world_size(),
            workers=machine.workers,
            crop=self._views.crop if change is None else ChangedCrop(self._views.crop, change),
            shuffle=shuffle,
            keep_small=keep_small,
            at_least=view.resize,
            max_unreadable=max_unreadable,
            pin_memory=machine.device.type == "cuda",
        )

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Images found to be unreadable so far."""
        return tuple(self._loader.unreadable.values())

    def epoch(self, number: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Images (n, 3, s, s) on the device and their numbers (n,), batch by batch."""
        draws = generator("probe views", self.seed, number)
        for batch in self._loader.epoch(number):
            ((images,),) = self._views(batch.images, draws)
            if self._change is not None and self._in_memory:
                images = self._changed(images, self._change, draws)
            yield images, batch.index

    def _changed(self, images: Tensor, change: Change, draws: torch.Generator) -> Tensor:
        """Change views of images in memory, which were not decoded by a worker."""
        mean, std = self._views.mean, self._views.std
        pixels = changed(as_bytes(unnormalised(images, mean, std)), change, draws)
        return normalised(pixels, mean, std).to(images.device, memory_format=torch.channels_last)


class FeatureLoader(ImageLoader):
    """Batches of features; several processes encode a share of each batch, and all get the whole batch.

    Args:
        encoder: Moved to the machine's device.
        source: The images.
        view: The augmentation.
        machine: Device, batch size and workers.
        training: Let batch norm use and update the statistics of each batch; otherwise the encoder is in evaluation
            mode.
        options: Options of the image loader.
    """

    def __init__(
        self,
        encoder: Encoder,
        source: Source,
        view: Augmentation,
        machine: Machine,
        *,
        training: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(encoder.info, source, view, machine, shared=True, **options)
        self.encoder = encoder.to(machine.device, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
        self._training, self._device = training, machine.device

    def epoch(self, number: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Features (n, feature_dim) on the device and the images' numbers (n,), batch by batch."""
        batches = super().epoch(number)
        while True:
            batch = next(batches, None)
            # A process without a share of a small last batch must still take part in the communication.
            if not any(gather_objects(batch is not None)):
                return
            images, index = (None, torch.empty(0, dtype=torch.int64)) if batch is None else batch
            if images is not None and self._in_memory:
                mine = share(len(index), rank(), world_size())
                images, index = images[mine], index[mine]
            yield self._encode(images), gather_rows(index.to(self._device)).cpu()

    @torch.inference_mode()
    def _encode(self, images: Tensor | None) -> Tensor:
        self.encoder.train(self._training)
        if images is None or not len(images):
            return gather_rows(torch.empty(0, self.encoder.feature_dim, device=self._device))
        return gather_rows(self.encoder(images).float())


def centre_view(info: EncoderInfo) -> Augmentation:
    """The evaluation view: resize and centre crop, as in ``encoder.preprocess``."""
    return Augmentation.centre(info.image_size, info.resize or info.image_size, info.interpolation)


def as_trained(view: Augmentation, info: EncoderInfo) -> Augmentation:
    """A view to train a classifier with: flipped and rotated as the encoder's own training views."""
    preset = PRESETS.get(info.preset or "")
    return replace(view, flip=0.5 if preset is None else preset.views[0].flip, upright=info.upright)


def encode(
    encoder: Encoder,
    source: Source,
    machine: Machine | None = None,
    progress: Progress | None = None,
    *,
    max_unreadable: float = MAX_UNREADABLE,
) -> Features:
    """Features of every readable image, in the order of the source.

    Images are resized and cropped at the centre, as in ``encoder.preprocess``. If a batch does not fit into the free
    memory, a smaller one is used; this does not change the features.

    Args:
        encoder: Moved to the machine's device and put into evaluation mode.
        source: The images.
        machine: Device, batch size and workers.
        progress: Called after each batch with the number of images done and the total.
        max_unreadable: Largest accepted share of unreadable images.

    Raises:
        UserError: too many images are unreadable, or all of them, or there is not enough memory.
    """
    machine, view = machine or Machine(), centre_view(encoder.info)
    size = 4 * len(source) * encoder.feature_dim
    streamed = size > machine.memory
    machine = fitted(encoder, source, machine, view.size, beside=0 if streamed else size)
    loader = FeatureLoader(encoder, source, view, machine, max_unreadable=max_unreadable)
    values, index, done = make_rows(len(source), encoder.feature_dim, streamed=streamed), [], 0
    for features, numbers in loader.epoch(0):
        values[done : done + len(numbers)] = _finite(features.cpu(), encoder)
        index.append(numbers)
        done += len(numbers)
        if progress is not None:
            progress(done, len(source))
    problems = tuple(dict.fromkeys(p for each in gather_objects(loader.problems) for p in each))
    if not index:
        raise UserError(f"no image of {source.name} is readable; for example {problems[0]}")
    values, numbers = values[:done], torch.cat(index)
    if not torch.equal(numbers, numbers.sort().values):  # sort the shares of several processes
        numbers, order = numbers.sort()
        values = values[order]
    return Features(values, numbers, problems, streamed)


def _finite(features: Tensor, encoder: Encoder) -> Tensor:
    if not bool(torch.isfinite(features).all()):
        raise NotFiniteFeaturesError(
            f"{encoder.info.encoder} gives features that are not finite numbers: its weights are damaged, or its "
            "training diverged (`cacr doctor` checks a run)"
        )
    return features


def make_rows(count: int, dim: int, *, streamed: bool) -> Tensor:
    """(count, dim) float32 in memory, or in a temporary file that is removed with the tensor.

    Raises:
        UserError: there is not enough space for the file.
    """
    if not streamed:
        return torch.empty(count, dim)
    folder = tempfile.gettempdir()
    if (
        4 * count * dim > shutil.disk_usage(folder).free
    ):  # writing to a mapped file on a full disk kills the process
        raise UserError(
            f"features of {count:,} images need {4 * count * dim / 2**30:.1f} GB, more than is free in memory and in "
            f"{folder}: set TMPDIR to a folder on a larger disk, or raise memory_gb"
        )
    with tempfile.NamedTemporaryFile(prefix="cacr-features-") as file:
        # The mapping keeps the file's content after its name is removed.
        return torch.from_file(file.name, shared=True, size=count * dim, dtype=torch.float32).view(count, dim)
