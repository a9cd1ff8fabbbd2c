"""Features of the images of a source, by an encoder at rest."""

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
"""Share of the images of a source that may be unreadable."""


@dataclass(frozen=True)
class Features:
    """What an encoder makes of a source.

    Attributes:
        values: (n, feature_dim) float32, on the CPU.
        index: (n,) number of each image in the source.
        problems: Images that could not be read; they have no features.
        streamed: Whether the values lie in a temporary file, and are to be gone through in blocks.
        cached: Whether nothing was encoded: they were kept from an earlier time.
    """

    values: Tensor
    index: Tensor
    problems: tuple[Problem, ...] = ()
    streamed: bool = False
    cached: bool = False


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
        shared: Of several processes each gets its share of every batch of files.
        change: Of the pixels of each view; images of 8 bits and three channels have one.
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
        shared: bool = False,
        change: Change | None = None,
    ) -> None:
        if source.channels != info.channels:
            raise UserError(
                f"{source.name} has images of {source.channels} channels, this encoder takes {info.channels}: continue "
                "from it on these images with `cacr pretrain DATA --init ENCODER`, which adapts its first layer"
            )
        self.seed = seed
        self._in_memory = source.image_size is not None
        # Images in memory are drawn as one batch in every process, so that their views do not depend on how many
        # there are; files are decoded by one process each.
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
            ((images,),) = self._views(batch.images, draws)
            if self._change is not None and self._in_memory:
                images = self._changed(images, self._change, draws)
            yield images, batch.index

    def _changed(self, images: Tensor, change: Change, draws: torch.Generator) -> Tensor:
        """Change views of images that lay in memory: no process has had their pixels in its hands."""
        mean, std = self._views.mean, self._views.std
        pixels = changed(as_bytes(unnormalised(images, mean, std)), change, draws)
        return normalised(pixels, mean, std).to(images.device, memory_format=torch.channels_last)


class FeatureLoader(ImageLoader):
    """Batches of features; several processes encode a share of each batch, and all get the whole.

    Args:
        encoder: Moved to the machine's device.
        source: The images.
        view: What an image goes through.
        machine: Where and in what portions.
        training: Let batch norm use and follow the statistics of each batch; otherwise the encoder is at rest.
        options: Of the image loader.
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
            # A process may have no share of a small last batch, and must take part in the exchange all the same.
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
    """The one view of evaluation: an image resized and its centre cut out as ``encoder.preprocess`` does it."""
    resize = info.resize or info.image_size
    return Augmentation(
        info.image_size, scale=None, resize=resize, interpolation=info.interpolation, flip=0.0
    )


def as_trained(view: Augmentation, info: EncoderInfo) -> Augmentation:
    """A training view of an encoder's classifier, mirrored and turned as the encoder's own training views are."""
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
    """Features of every image that can be read, in the order of the source.

    An image is resized and its centre cut out as ``encoder.preprocess`` does it. Where a batch of the machine does
    not fit into the free memory, a smaller one is taken: it changes no feature.

    Args:
        encoder: Moved to the machine's device and put into evaluation mode.
        source: The images.
        machine: Where and in what portions.
        progress: Called after each batch with the number of images done and in all.
        max_unreadable: Share of unreadable images that is tolerated.

    Raises:
        UserError: more than ``max_unreadable`` of the images cannot be read, or none can, or there is no memory.
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
        raise UserError(f"no image of {source.name} can be read; for example {problems[0]}")
    values, numbers = values[:done], torch.cat(index)
    if not torch.equal(numbers, numbers.sort().values):  # shares of several processes, put into order
        numbers, order = numbers.sort()
        values = values[order]
    return Features(values, numbers, problems, streamed)


def _finite(features: Tensor, encoder: Encoder) -> Tensor:
    if not bool(torch.isfinite(features).all()):
        raise UserError(
            f"{encoder.info.encoder} gives features that are not finite numbers: its weights are damaged, or its "
            "training diverged (`cacr doctor` looks at a run)"
        )
    return features


def make_rows(count: int, dim: int, *, streamed: bool) -> Tensor:
    """(count, dim) float32 in memory, or in a temporary file that ends with the tensor.

    Raises:
        UserError: there is no room for the file.
    """
    if not streamed:
        return torch.empty(count, dim)
    folder = tempfile.gettempdir()
    if 4 * count * dim > shutil.disk_usage(folder).free:  # writing into the mapping would kill the process
        raise UserError(
            f"features of {count:,} images need {4 * count * dim / 2**30:.1f} GB, more than is free in memory and in "
            f"{folder}: set TMPDIR to a folder on a larger disk, or raise memory_gb"
        )
    with tempfile.NamedTemporaryFile(prefix="cacr-features-") as file:
        # The mapping keeps the file's blocks after its name is gone.
        return torch.from_file(file.name, shared=True, size=count * dim, dtype=torch.float32).view(count, dim)
