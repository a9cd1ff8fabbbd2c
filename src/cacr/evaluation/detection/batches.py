"""Batches of images with their objects, for a detector; the images of a step depend only on its number."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from cacr.data import Problem
from cacr.data.annotated import AnnotatedSource
from cacr.data.source import Indices
from cacr.data.workers import held_signals, leave_signals
from cacr.errors import UnreadableImageError
from cacr.files import printable
from cacr.randomness import numpy_generator

Target = dict[str, Tensor]


@dataclass(frozen=True)
class Picture:
    """One image for a detector.

    Attributes:
        index: Its number in the source.
        image: (3, h, w) uint8.
        target: ``boxes`` (n, 4), ``labels`` (n,) from 1, and ``masks`` (n, h, w) if they are wanted.
    """

    index: int
    image: Tensor
    target: Target


@lru_cache(maxsize=2)  # this pass and the next one
def order_of(images: int, seed: int, epoch: int) -> Indices:
    """The numbers of all images in the order of one pass."""
    order: Indices = numpy_generator("detection-order", seed, epoch).permutation(images)
    return order


def images_of_step(images: int, batch_size: int, seed: int, step: int) -> list[int]:
    """The numbers of the images of a step; a step may contain the end of one pass and the start of the next."""
    places = range(step * batch_size, (step + 1) * batch_size)
    return [int(order_of(images, seed, place // images)[place % images]) for place in places]


class _Pictures(Dataset[Picture | Problem]):
    """Decodes images, flips some, and makes their targets; a key is a position and the number of an image."""

    def __init__(self, source: AnnotatedSource, *, masks: bool, flips: int | None) -> None:
        self.source, self.masks, self.flips = source, masks, flips

    def __getitem__(self, key: tuple[int, int]) -> Picture | Problem:
        place, index = key
        try:
            image = self.source.read(index)
        except UnreadableImageError as error:
            return Problem(index, printable(self.source.describe(index)), error.reason)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)
        target = target_of(self.source, index, masks=self.masks)
        if self.flips is not None and numpy_generator("detection-flip", self.flips, place).random() < 0.5:
            pixels, target = flipped(pixels, target)
        return Picture(index, pixels, target)


def target_of(source: AnnotatedSource, index: int, *, masks: bool) -> Target:
    """The objects of an image, without crowds, which cannot be used for training."""
    objects = source.objects[index]
    objects = objects.only(~objects.crowd)
    target = {"boxes": torch.from_numpy(objects.boxes), "labels": torch.from_numpy(objects.classes) + 1}
    if masks:
        size = objects.height, objects.width
        pixels = [mask.pixels(*size) for mask in objects.masks if mask is not None]
        stacked = np.stack(pixels) if pixels else np.zeros((0, *size), dtype=bool)
        target["masks"] = torch.from_numpy(stacked.astype(np.uint8))
    return target


def flipped(image: Tensor, target: Target) -> tuple[Tensor, Target]:
    """An image and its objects, flipped from left to right."""
    width, boxes = image.shape[-1], target["boxes"]
    mirrored = torch.stack([width - boxes[:, 2], boxes[:, 1], width - boxes[:, 0], boxes[:, 3]], dim=1)
    other = target | {"boxes": mirrored}
    if "masks" in target:
        other["masks"] = target["masks"].flip(-1)
    return image.flip(-1), other


def training_batches(
    source: AnnotatedSource,
    *,
    batch_size: int,
    seed: int,
    steps: range,
    share: slice,
    masks: bool,
    workers: int,
) -> Iterator[list[Picture | Problem]]:
    """The images of some steps.

    Args:
        source: The training images.
        batch_size: Batch size over all processes.
        seed: Seed of order and flips.
        steps: Numbers of the steps.
        share: The images of a batch that belong to this process.
        masks: Whether targets have masks.
        workers: Number of decoding processes.
    """
    keys = _Keys(len(source), batch_size, seed, steps, share)
    return _load(_Pictures(source, masks=masks, flips=seed), keys, workers)


@dataclass(frozen=True)
class _Keys:
    """The keys of this process's images for each step, made when they are needed."""

    images: int
    batch_size: int
    seed: int
    steps: range
    share: slice

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        for step in self.steps:
            numbers = images_of_step(self.images, self.batch_size, self.seed, step)
            places = range(step * self.batch_size, (step + 1) * self.batch_size)
            yield list(zip(places, numbers, strict=True))[self.share]


def judged_pictures(source: AnnotatedSource, images: Indices, *, workers: int) -> Iterator[Picture | Problem]:
    """Some images one by one, unchanged."""
    keys = [[(0, int(index))] for index in images]
    return (batch[0] for batch in _load(_Pictures(source, masks=False, flips=None), keys, workers))


def _load(pictures: _Pictures, keys: Iterable[list[tuple[int, int]]], workers: int) -> Iterator[list[Any]]:
    loader: DataLoader[Any] = DataLoader(
        pictures,
        batch_sampler=keys,
        num_workers=workers,
        collate_fn=_as_they_are,
        worker_init_fn=leave_signals,
    )
    with held_signals():
        return iter(loader)


def _as_they_are(batch: list[Any]) -> list[Any]:
    return batch
