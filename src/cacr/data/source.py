"""The base class of all sources: images by number."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from cacr.data.levels import levels, preview
from cacr.errors import UserError

Indices = NDArray[np.int64]
Captions = tuple[str, ...]

MOST_NUMBERS = 100_000
"""Classes up to this number are counted one by one; four times more than in any data set."""


class Sample(NamedTuple):
    """One image, its number in the source, and its label, its captions or None."""

    image: Image.Image
    number: int
    target: int | Captions | None


class Assumption(str):
    """A note on how labels were assumed; it is not shown if the user asked for labels."""


class Source(ABC):
    """Images by number, with labels or captions if there are any.

    Attributes:
        name: ``cifar10``, or the folder as it was given.
        labels: (N,) class of each image, or None.
        class_names: the name of each class, or None.
        captions: the captions of each image, or None.
        notes: notes for the user on how the data was read; commands print them.
    """

    def __init__(
        self,
        name: str,
        *,
        labels: Sequence[int] | NDArray[np.integer] | None = None,
        class_names: Sequence[str] | None = None,
        captions: Sequence[Captions] | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.labels: Indices | None = None if labels is None else np.asarray(labels, dtype=np.int64)
        self.class_names: tuple[str, ...] | None = None if class_names is None else tuple(class_names)
        self.captions: tuple[Captions, ...] | None = None if captions is None else tuple(captions)
        self.notes: tuple[str, ...] = tuple(notes)
        if self.labels is not None:
            _check_labels(name, self.labels, self.class_names)

    deep = False
    """Whether images are more than 8-bit RGB: then training uses :meth:`read_pixels`."""

    @property
    def channels(self) -> int:
        """Number of channels of every image."""
        return 3

    def read_pixels(self, index: int) -> torch.Tensor:
        """The image as levels, float32 (channels, h, w) from 0 to 255, without loss.

        Raises:
            UnreadableImageError: names the file.
        """
        return levels(np.asarray(self.read(index)).transpose(2, 0, 1))

    @property
    def image_size(self) -> tuple[int, int] | None:
        """Height and width of images that are decoded in memory, all of one size; None for files."""
        return None

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def read(self, index: int, at_least: int | None = None) -> Image.Image:
        """The image as RGB; ``at_least`` allows a smaller decoding (see ``decode.read_rgb``).

        Raises:
            UnreadableImageError: names the file.
        """

    def describe(self, index: int) -> str:
        """The location of an image: its file name, or ``cifar10[17]``."""
        return f"{self.name}[{index}]"

    def subset(self, indices: Indices) -> Self:
        """The same source with only these images, in this order."""
        indices = np.asarray(indices, dtype=np.int64)
        part = copy.copy(self)
        part.labels = None if self.labels is None else self.labels[indices]
        part.captions = None if self.captions is None else tuple(self.captions[i] for i in indices)
        part._select(indices)
        return part

    @abstractmethod
    def _select(self, indices: Indices) -> None:
        """Keep only these images; called on a copy whose labels and captions are already selected."""

    def with_notes(self, *notes: str) -> Self:
        """The same source with more notes."""
        noted = copy.copy(self)
        noted.notes = self.notes + notes
        return noted

    def labelled(self, labels: Indices, class_names: Sequence[str]) -> Self:
        """The same source with these labels (N,) instead of its own."""
        other = copy.copy(self)
        other.labels, other.class_names = np.asarray(labels, dtype=np.int64), tuple(class_names)
        _check_labels(self.name, other.labels, other.class_names)
        return other

    def named(self) -> Self:
        """The same source with a name for each class: its number, if the source has no names.

        Classes that do not occur are then left out, so labels may have gaps.
        """
        if self.labels is None or self.class_names is not None:
            return self
        numbers, labels = np.unique(self.labels, return_inverse=True)
        other = copy.copy(self)
        other.labels, other.class_names = labels.astype(np.int64), tuple(str(number) for number in numbers)
        return other

    def renumbered(self, class_names: Sequence[str]) -> Self:
        """The same source with the class numbers of another part; classes are matched by name.

        Without this, two folders have equal numbers only if they have the same classes.

        Raises:
            UserError: there are no named classes here, or one is not in ``class_names``.
        """
        if self.labels is None or self.class_names is None:
            raise UserError(
                f"{self.name} has no named classes to compare with {', '.join(class_names[:3])} ..."
            )
        number = {name: label for label, name in enumerate(class_names)}
        unknown = [name for name in self.class_names if name not in number]
        if unknown:
            raise UserError(
                f"{self.name} has {len(unknown)} classes that the training data lacks, "
                f"for example {unknown[0]!r}"
            )
        other = copy.copy(self)
        other.labels = np.array([number[name] for name in self.class_names], dtype=np.int64)[self.labels]
        other.class_names = tuple(class_names)
        return other

    def class_counts(self) -> dict[str, int] | None:
        """Number of images per class, by name, including empty classes; None without labels.

        Class numbers without names and with very large gaps: only the classes that occur.
        """
        if self.labels is None:
            return None
        if self.class_names is None and self.labels.max(initial=0) >= MOST_NUMBERS:
            return self.named().class_counts()
        known = 0 if self.class_names is None else len(self.class_names)
        counts = np.bincount(self.labels, minlength=known)
        names = self.class_names or tuple(str(label) for label in range(len(counts)))
        return dict(zip(names, counts.tolist(), strict=True))

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < len(self):
            raise IndexError(f"{self.name} has {len(self)} images, so there is no image {index}")
        target: int | Captions | None = None
        if self.labels is not None:
            target = int(self.labels[index])
        elif self.captions is not None:
            target = self.captions[index]
        return Sample(self.read(index), index, target)

    def __iter__(self) -> Iterator[Sample]:
        return (self[index] for index in range(len(self)))


def _check_labels(name: str, labels: Indices, class_names: tuple[str, ...] | None) -> None:
    """Refuse labels without a class."""
    least, most = int(labels.min(initial=0)), int(labels.max(initial=0))
    if class_names is not None and len(labels) and not 0 <= least <= most < len(class_names):
        raise UserError(
            f"{name} has labels from {least} to {most}, but names for {len(class_names)} classes: a label is the "
            "number of its class, starting at 0"
        )
    if least < 0:
        raise UserError(f"{name} has labels from {least} to {most}: number the classes from 0")


class ArraySource(Source):
    """Images of equal size as one tensor (N, channels, height, width), in memory or memory-mapped.

    It is uint8, or uint16, which is used without loss.
    """

    def __init__(
        self,
        name: str,
        images: torch.Tensor,
        *,
        labels: Sequence[int] | NDArray[np.integer] | None = None,
        class_names: Sequence[str] | None = None,
        captions: Sequence[Captions] | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        if images.dtype not in (torch.uint8, torch.uint16) or images.ndim != 4:
            raise ValueError(
                f"images must be uint8 or uint16 (N, channels, H, W), not {images.dtype} {tuple(images.shape)}"
            )
        super().__init__(name, labels=labels, class_names=class_names, captions=captions, notes=notes)
        # Few operations support uint16; the same bytes as int16 can be indexed.
        self._sixteen = images.dtype == torch.uint16
        self._base = images.view(torch.int16) if self._sixteen else images
        self.deep = self._sixteen or self.channels != 3
        self._rows: torch.Tensor | None = None  # do not copy a subset of a memory-mapped file into memory

    @property
    def images(self) -> torch.Tensor:
        """(N, channels, height, width), uint8 or uint16; a subset is copied when it is first used."""
        if self._rows is not None:
            self._base, self._rows = self._base[self._rows], None
        return self._base.view(torch.uint16) if self._sixteen else self._base

    @property
    def channels(self) -> int:
        """Number of channels of every image."""
        return self._base.shape[1]

    @property
    def image_size(self) -> tuple[int, int]:
        """Height and width."""
        return self._base.shape[2], self._base.shape[3]

    def take(self, indices: Indices) -> torch.Tensor:
        """These images, (n, channels, height, width), contiguous: uint8, or 16-bit values as float32 levels."""
        rows = torch.from_numpy(indices)
        found = self._base[rows if self._rows is None else self._rows[rows]].contiguous()
        return levels(found.numpy().view(np.uint16)) if self._sixteen else found

    def __len__(self) -> int:
        return len(self._base) if self._rows is None else len(self._rows)

    def read(self, index: int, at_least: int | None = None) -> Image.Image:
        """The image as RGB; images with more channels or bits as a picture for people."""
        if self.deep:
            return preview(self.read_pixels(index))
        return Image.fromarray(self.take(np.array([index]))[0].permute(1, 2, 0).numpy())

    def read_pixels(self, index: int) -> torch.Tensor:
        """The image as levels (channels, height, width)."""
        return self.take(np.array([index]))[0].float()

    def _select(self, indices: Indices) -> None:
        rows = torch.from_numpy(indices)
        self._rows = rows if self._rows is None else self._rows[rows]
