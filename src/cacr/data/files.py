"""Images in single files."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cacr.data.source import Captions, Indices, Source
from cacr.decode import read_rgb
from cacr.files import printable


class Paths:
    """Many file names in one block of memory.

    Fourteen million ``Path`` objects take gigabytes, and every worker process would get a copy, because counting
    references writes to their pages. Names are stored as bytes, because a file name may not be valid Unicode.
    """

    def __init__(self, root: Path, names: Iterable[str]) -> None:
        self.root = root
        encoded = [os.fsencode(name) for name in names]
        self._ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)
        self._starts = self._ends - np.array([len(name) for name in encoded], dtype=np.int64)
        self._names = b"".join(encoded)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> Path:
        return self.root / os.fsdecode(self._names[self._starts[index] : self._ends[index]])

    def __iter__(self) -> Iterator[Path]:
        return (self[index] for index in range(len(self)))

    def subset(self, indices: Indices) -> "Paths":
        """Only these names; the block of memory is shared."""
        part = object.__new__(Paths)
        part.root, part._names = self.root, self._names
        part._starts, part._ends = self._starts[indices], self._ends[indices]
        return part


class FileSource(Source):
    """Image files, decoded when they are read.

    Attributes:
        paths: the file of each image.
    """

    def __init__(
        self,
        name: str,
        root: Path,
        names: Iterable[str],
        *,
        labels: Sequence[int] | NDArray[np.integer] | None = None,
        class_names: Sequence[str] | None = None,
        captions: Sequence[Captions] | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        super().__init__(name, labels=labels, class_names=class_names, captions=captions, notes=notes)
        self.paths = Paths(root, names)

    @property
    def root(self) -> Path:
        """The folder that contains all files."""
        return self.paths.root

    def __len__(self) -> int:
        return len(self.paths)

    def read(self, index: int, at_least: int | None = None) -> Image.Image:
        """Decode the file to RGB."""
        return read_rgb(self.paths[index], printable(self.describe(index)), at_least)

    def describe(self, index: int) -> str:
        """The file name."""
        return str(self.paths[index])

    def _select(self, indices: Indices) -> None:
        self.paths = self.paths.subset(indices)
