"""Decode and crop the images of a batch."""

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset, get_worker_info

from cacr.data.batch import Batch
from cacr.data.errors import Problem
from cacr.data.order import sample_generator
from cacr.data.source import Captions, Indices, Source
from cacr.data.stream import Raw
from cacr.errors import UnreadableImageError, UserError

T = TypeVar("T")
Crop = Callable[[Image.Image | torch.Tensor, torch.Generator], list[torch.Tensor]]
_MOST_REPLACEMENTS = 1000


@dataclass(frozen=True)
class Work:
    """One batch to make: the numbers of the images, and the epoch, which decides their crops."""

    epoch: int
    indices: Indices
    raw: tuple[Raw, ...] | None = None  # the files of the images, if they come from a stream


@dataclass(frozen=True)
class WorkerFailure:
    """An error in a worker, as a value: PyTorch would wrap the exception in an unreadable traceback."""

    message: str


class Decoder(Dataset[Batch | WorkerFailure]):
    """Makes the batch of a piece of work.

    Args:
        source: the images.
        crop: turns an image into views, one uint8 tensor (views, 3, size, size) per group of views.
        seed: seed of the crops.
        at_least: shorter side that ``crop`` needs.
        replace: replace an unreadable image by the next readable one, instead of leaving it out.
        workers: number of decoding processes.
    """

    def __init__(
        self, source: Source, crop: Crop, seed: int, at_least: int | None, *, replace: bool, workers: int
    ) -> None:
        self.source = source
        self.crop = crop
        self.seed = seed
        self.at_least = at_least
        self.replace = replace
        # For each worker its process and its current image: a killed worker cannot report it.
        self.in_hand = torch.full((workers, 2), -1, dtype=torch.int64)
        self.in_hand.share_memory_()  # type: ignore[no-untyped-call]

    def __getitem__(self, work: Work) -> Batch | WorkerFailure:
        try:
            return self._make(work)
        except UserError as error:
            return WorkerFailure(str(error))

    def _make(self, work: Work) -> Batch:
        problems: list[Problem] = []
        raw = None if work.raw is None else {item.index: item for item in work.raw}
        taken = set(work.indices.tolist())
        used: list[int] = []
        views: list[list[torch.Tensor]] = []
        for position, requested in enumerate(work.indices.tolist()):
            following = self._following(requested, taken) if raw is None else _rotated(work.indices, position)
            for index in itertools.chain([requested], following if self.replace else ()):
                try:
                    views.append(self._views(index, work.epoch, None if raw is None else raw[index]))
                except UnreadableImageError as error:
                    problems.append(Problem(index, error.where, error.reason))
                else:
                    used.append(index)
                    taken.add(index)
                    break
            else:
                if self.replace:
                    raise UserError(f"no readable image was found to replace {problems[-1]}")
        images = [torch.stack(size, dim=1) for size in zip(*views, strict=True)]
        labels, captions = self._targets(used, raw)
        return Batch(
            images=images,
            index=torch.tensor(used, dtype=torch.int64),
            labels=None if labels is None else torch.tensor(labels, dtype=torch.int64),
            captions=None if captions is None else tuple(captions),
            unreadable=tuple(problems),
        )

    def _following(self, requested: int, taken: set[int]) -> Iterator[int]:
        """Candidates to replace an unreadable image: the next ones that are not in the share yet."""
        following = ((requested + step) % len(self.source) for step in range(1, _MOST_REPLACEMENTS))
        return (index for index in following if index not in taken)

    def _views(self, index: int, epoch: int, raw: Raw | None) -> list[torch.Tensor]:
        if (worker := get_worker_info()) is not None:
            self.in_hand[worker.id] = torch.tensor([os.getpid(), index])
        image: Image.Image | torch.Tensor
        if raw is not None:
            image = raw.decode(self.at_least)
        elif self.source.deep:
            image = self.source.read_pixels(index)
        else:
            image = self.source.read(index, self.at_least)
        try:
            return self.crop(image, sample_generator(self.seed, epoch, index))
        except Exception as error:
            size = tuple(image.shape) if isinstance(image, torch.Tensor) else image.size
            error.add_note(f"while cropping {self.source.describe(index)} ({size})")
            raise

    def _targets(
        self, used: list[int], raw: dict[int, Raw] | None
    ) -> tuple[list[int] | None, list[Captions] | None]:
        """Labels and captions of the images, if there are any."""
        if raw is not None:
            return _all_or_none([raw[i].label for i in used]), _all_or_none([raw[i].captions for i in used])
        labels, captions = self.source.labels, self.source.captions
        return (
            None if labels is None else labels[used].tolist(),
            None if captions is None else [captions[i] for i in used],
        )


def _all_or_none(values: list[T | None]) -> list[T] | None:
    present = [value for value in values if value is not None]
    return present if len(present) == len(values) else None


def _rotated(indices: Indices, position: int) -> Iterator[int]:
    """The other images of a share, starting after ``position``: a stream has no others available."""
    return (int(index) for index in np.roll(indices, -position)[1:])
