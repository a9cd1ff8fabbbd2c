"""Images with annotated objects: boxes, and optionally masks."""

import copy
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from cacr.data.files import FileSource
from cacr.data.masks import Mask
from cacr.data.source import Indices
from cacr.errors import UserError
from cacr.files import printable

LEAST_SIDE = 1e-2
"""Smallest side of a box inside the image, in pixels; smaller boxes are refused."""


@dataclass(frozen=True)
class Objects:
    """The objects of one image.

    Attributes:
        height: Height of the annotated image, in pixels.
        width: Its width.
        boxes: (n, 4) float32: left, top, right, bottom in pixels from the upper left corner.
        classes: (n,) class numbers.
        crowd: (n,) whether a box contains many objects of its class, which were not counted.
        difficult: (n,) whether the object is too difficult: it does not count, found or not.
        masks: One per object; None if it has none.
    """

    height: int
    width: int
    boxes: NDArray[np.float32]
    classes: Indices
    crowd: NDArray[np.bool_]
    difficult: NDArray[np.bool_]
    masks: tuple[Mask | None, ...]

    def __len__(self) -> int:
        return len(self.boxes)

    def only(self, chosen: NDArray[np.bool_]) -> "Objects":
        """Some of the objects."""
        masks = tuple(mask for mask, kept in zip(self.masks, chosen, strict=True) if kept)
        return replace(
            self,
            boxes=self.boxes[chosen],
            classes=self.classes[chosen],
            crowd=self.crowd[chosen],
            difficult=self.difficult[chosen],
            masks=masks,
        )


@dataclass(frozen=True)
class Marked:
    """One object of an annotation file: its box (left, top, right, bottom), class and flags."""

    box: tuple[float, float, float, float]
    label: int
    crowd: bool = False
    difficult: bool = False
    mask: Mask | None = None


def objects_of(height: int, width: int, marked: Sequence[Marked]) -> Objects:
    """The objects of an image; their boxes are clipped at its border."""
    boxes = np.array([one.box for one in marked], dtype=np.float32).reshape(-1, 4)
    return Objects(
        height,
        width,
        np.clip(boxes, 0, np.array([width, height, width, height], dtype=np.float32)),
        np.array([one.label for one in marked], dtype=np.int64),
        np.array([one.crowd for one in marked], dtype=bool),
        np.array([one.difficult for one in marked], dtype=bool),
        tuple(one.mask for one in marked),
    )


def box_problem(box: Sequence[float], height: int, width: int) -> str | None:
    """What is wrong with a box (left, top, right, bottom); None if a part of it is inside the image."""
    left, top, right, bottom = box
    shown = ", ".join(f"{value:g}" for value in box)
    if not np.isfinite(box).all() or right - left < LEAST_SIDE or bottom - top < LEAST_SIDE:
        return f"the box ({shown}) has no area"
    inside_x, inside_y = min(right, width) - max(left, 0), min(bottom, height) - max(top, 0)
    if inside_x < LEAST_SIDE or inside_y < LEAST_SIDE:
        return f"the box ({shown}) is outside of its image of {width} x {height} pixels"
    return None


class AnnotatedSource(FileSource):
    """Image files with annotated objects.

    Attributes:
        objects: Objects of each image.
        categories: Names of the classes.
        skipped: Annotations that are left out: where, and why.
        marked: Number of annotations, including those that are left out.
    """

    def __init__(
        self,
        name: str,
        root: Path,
        names: Iterable[str],
        objects: Sequence[Objects],
        categories: Sequence[str],
        *,
        skipped: Sequence[str] = (),
        notes: Sequence[str] = (),
    ) -> None:
        if skipped:
            notes = (*notes, note_on_left_out("annotations", skipped))
        super().__init__(name, root, names, notes=notes)
        self.objects = tuple(objects)
        self.categories = tuple(categories)
        self.skipped = tuple(skipped)
        self.marked = sum(len(each) for each in self.objects) + len(self.skipped)

    def _select(self, indices: Indices) -> None:
        super()._select(indices)
        self.objects = tuple(self.objects[index] for index in indices)

    def numbered_as(self, categories: Sequence[str]) -> Self:
        """The same images, with the class numbers of another part.

        Raises:
            UserError: there are objects of a class that the other part does not have.
        """
        if self.categories == tuple(categories):
            return self
        number = {name: label for label, name in enumerate(categories)}
        present = {int(label) for each in self.objects for label in np.unique(each.classes)}
        unknown = [
            self.categories[label] for label in sorted(present) if self.categories[label] not in number
        ]
        if unknown:
            raise UserError(
                f"the test images of {self.name} show {len(unknown)} classes that the training images do not, for "
                f"example {unknown[0]!r}, as in {self._example(unknown[0])}; known: {', '.join(categories)}"
            )
        renumber = np.array([number.get(name, -1) for name in self.categories], dtype=np.int64)
        other = copy.copy(self)
        other.categories = tuple(categories)
        other.objects = tuple(replace(each, classes=renumber[each.classes]) for each in self.objects)
        return other

    def object_counts(self) -> dict[str, int]:
        """Number of objects per class, by name."""
        counts: Counter[int] = Counter()
        for each in self.objects:
            counts.update(each.classes.tolist())
        return {name: counts[label] for label, name in enumerate(self.categories)}

    def _example(self, category: str) -> str:
        label = self.categories.index(category)
        index = next(i for i, each in enumerate(self.objects) if (each.classes == label).any())
        return printable(self.describe(index))


def note_on_left_out(what: str, texts: Sequence[str]) -> str:
    """Say how many annotations or images are left out, and why the first ones are."""
    more = f", and {len(texts) - 3:,} more" if len(texts) > 3 else ""
    examples = "; ".join(printable(text) for text in texts[:3])
    return f"{len(texts):,} {what} are left out: {examples}{more}"
