"""The images of a report: which data, which of its images, and their names."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cacr.config import PretrainSettings
from cacr.data import FileSource, KnownLabels, Source, imbalanced, known_labels, open_source, prepare
from cacr.data.named_images import fully_labelled
from cacr.data.source import Indices
from cacr.files import printable
from cacr.randomness import numpy_generator
from cacr.reporting.packing import packed_texts

MOST_POINTS = 50_000
MOST_PICTURES = 4_000
_NAME_LENGTHS = (250, 100, 40, 16)
_NAMES_BYTES = 2_600_000


@dataclass(frozen=True)
class Shown:
    """Images of a source.

    Attributes:
        data: Name of the source.
        opened: The whole source, which knows every image's name.
        numbers: (n,) numbers of the shown images in ``opened``, ascending.
        total: Number of images to choose from.
        known: Labels of all or some images of ``opened``; None without labels.
    """

    data: str
    opened: Source
    numbers: Indices
    total: int
    known: KnownLabels | None = None

    @property
    def source(self) -> Source:
        """The shown images only."""
        return self.opened.subset(self.numbers)

    def only(self, kept: Indices) -> "Shown":
        """Some of the shown images, by their position among them."""
        return replace(self, numbers=self.numbers[kept])

    def names(self) -> tuple[str, list[str]]:
        """The common folder of all images, and the name of each inside it; safe to print."""
        names = [printable(self.opened.describe(int(number))) for number in self.numbers]
        if not names or not isinstance(self.opened, FileSource):
            return "", names
        folder = os.path.commonpath([str(Path(name).parent) for name in names])
        return folder, [os.path.relpath(name, folder) for name in names]

    def labels(self) -> tuple[Indices | None, list[str]]:
        """(n,) classes, -1 for unknown, or None, and the name of each class."""
        if self.known is None or not self.known.class_names:
            return None, []
        return self.known.labels[self.numbers], [printable(name) for name in self.known.class_names]


def open_shown(
    settings: PretrainSettings,
    data: str | None,
    *,
    images: str | None = None,
    labels: Path | None = None,
    data_root: Path | None = None,
    download: bool = False,
    points: int = MOST_POINTS,
    seed: int = 0,
) -> Shown:
    """The images to show: those of ``data``, or those that the run was trained on.

    If there are more than ``points``, a random sample of this size is shown.

    ``images`` is a list of the images to show; ``labels`` is a CSV file with labels of all or some. By default both
    are those of the run.

    Raises:
        UserError: the data does not exist.
    """
    root = settings.data_root if data_root is None else data_root
    if data is None:
        images, labels = images or settings.images, labels or settings.labels
    opened = open_source(data or settings.data, part="pretrain", root=root, download=download, images=images)
    known = known_labels(opened, labels)
    numbers: Indices = np.arange(len(opened))
    if data is None and settings.imbalance != "none":
        prepared = prepare(fully_labelled(opened, labels), max_unreadable=settings.max_unreadable)
        sound = np.setdiff1d(numbers, [problem.index for problem in prepared.problems])
        _, kept = imbalanced(prepared.source, settings.imbalance, settings.imbalance_seed)
        numbers = np.sort(sound[kept])
    total = len(numbers)
    if total > points:
        numbers = np.sort(numpy_generator("report", seed).choice(numbers, points, replace=False))
    return Shown(data or settings.data, opened, numbers, total, known)


def packed_names(names: list[str]) -> str:
    """The names for the report; the middle of long names is left out if they take too much space."""
    for length in _NAME_LENGTHS:
        half = length // 2
        packed = packed_texts([n if len(n) <= length else f"{n[:half]}…{n[-half:]}" for n in names])
        if len(packed) <= _NAMES_BYTES:
            break
    return packed
