"""Write features to files: arrays for Python, tables for other software."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cacr.errors import MissingExtraError
from cacr.features.index import Neighbours
from cacr.features.layout import layout
from cacr.files import atomic_path, require_new_file
from cacr.reading.tables import write_table

FORMATS = (".npz", ".parquet", ".csv")
"""Allowed suffixes of the file."""

TABLES = (".parquet", ".csv")
"""Formats with a map and neighbours."""

NEIGHBOURS = 15
"""Number of nearest images in a table, including the image itself, as embedding-atlas counts them."""

X, Y, NEAR = "projection_x", "projection_y", "neighbors"
"""Columns of the map and of the neighbours, with the names that embedding-atlas uses."""


@dataclass(frozen=True)
class FeatureTable:
    """The columns of a feature file.

    Attributes:
        index: (n,) number of each image in the data.
        name: Its file name, or ``cifar10[17]``.
        label: (n,) its class, -1 for unknown; None without labels.
        class_names: The name of each class; None without labels.
        values: (n, d) its features as they are written.
        vectors: (n, dim) unit vectors for comparisons; only tables need them, for the map.
    """

    index: NDArray[np.int64]
    name: Sequence[str]
    label: NDArray[np.int64] | None
    class_names: Sequence[str] | None
    values: NDArray[np.float32]
    vectors: Tensor

    def write(self, out: Path) -> None:
        """Write the complete file, or nothing."""
        write = {".npz": self._npz, ".parquet": self._parquet, ".csv": self._csv}[out.suffix]
        with atomic_path(out) as temporary:
            write(temporary)

    def _npz(self, path: Path) -> None:
        columns: dict[str, Any] = {"index": self.index, "name": np.array(self.name)}
        if self.label is not None and self.class_names is not None:
            columns |= {"label": self.label, "class_names": np.array(self.class_names)}
        np.savez(path, features=self.values, **columns)

    def _parquet(self, path: Path) -> None:
        arrow, parquet = _pyarrow()
        places, ids, distances = self._map()
        columns: dict[str, Any] = {"index": self.index, "path": list(self.name)}
        if (labels := self._labels()) is not None:
            columns["label"] = arrow.array(labels, type=arrow.string())
        flat = arrow.array(self.values.reshape(-1))
        columns["features"] = arrow.FixedSizeListArray.from_arrays(flat, self.values.shape[1])
        columns |= {X: places[:, 0], Y: places[:, 1]}
        columns[NEAR] = arrow.StructArray.from_arrays(
            [arrow.array(list(ids)), arrow.array(list(distances))], names=["ids", "distances"]
        )
        parquet.write_table(arrow.table(columns), path)

    def _csv(self, path: Path) -> None:
        """Neighbours as row numbers with spaces between them, and one column per feature."""
        places, ids, _ = self._map()
        labels = self._labels()
        columns = ["index", "path", *(["label"] if labels is not None else []), X, Y, NEAR]
        columns += [f"feature_{number}" for number in range(self.values.shape[1])]
        rows = []
        for row, (index, name) in enumerate(zip(self.index.tolist(), self.name, strict=True)):
            label = [] if labels is None else [labels[row] or ""]
            x, y = (f"{place:.6f}" for place in places[row])
            near = " ".join(map(str, ids[row].tolist()))
            rows.append(
                [index, name, *label, x, y, near, *(f"{value:.7g}" for value in self.values[row].tolist())]
            )
        write_table(path, columns, rows)

    def _labels(self) -> list[str | None] | None:
        if self.label is None or self.class_names is None:
            return None
        return [None if label < 0 else self.class_names[label] for label in self.label.tolist()]

    def _map(self) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
        """Positions (n, 2); rows (n, k) of the nearest images, starting with the image; cosine distances (n, k)."""
        count = len(self.index)
        cosine, near = Neighbours(self.vectors).of_all(min(NEIGHBOURS, count) - 1)
        own = np.arange(count)[:, None]
        ids = np.concatenate([own, near.numpy()], axis=1)
        distances = np.concatenate([np.zeros((count, 1)), (1 - cosine.double()).clamp(min=0).numpy()], axis=1)
        return layout(self.vectors), ids, distances


def check_target(out: Path) -> None:
    """Refuse a file that cannot be written, before anything is computed.

    Raises:
        UserError: the suffix is unknown, the file exists, the folder cannot be written, or an extra is missing.
    """
    require_new_file(out, FORMATS)
    if out.suffix == ".parquet":
        _pyarrow()


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("writing .parquet files", "parquet") from None
    return pyarrow, pyarrow.parquet
