"""``cacr embed``: features of a whole source as a file."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cacr.data import Part, Source, open_source
from cacr.data.prepare import Progress
from cacr.encoders import Encoder, load_encoder
from cacr.errors import MissingExtraError, UserError
from cacr.features.encode import MAX_UNREADABLE, Features, encode
from cacr.features.machine import Machine, choose_machine
from cacr.features.reader import asked_reader, choose_reader
from cacr.files import appearing, require_new_file, storable


@dataclass(frozen=True)
class WrittenFeatures:
    """What was written, and what was not.

    Attributes:
        images: Images whose features were written.
        part: The part of the data they are: ``pretrain``, ``train`` or ``test``.
        unreadable: Images that were left out because they cannot be read.
        notes: What the user should know about how the data was read.
    """

    images: int
    part: str
    unreadable: int
    notes: tuple[str, ...]


def embed_source(
    run: str | os.PathLike[str],
    data: str,
    out: Path,
    *,
    reader: str | None = None,
    reader_components: int | None = None,
    part: Part = "pretrain",
    data_root: Path | str = Path("data"),
    download: bool = False,
    max_unreadable: float = MAX_UNREADABLE,
    progress: Progress | None = None,
) -> WrittenFeatures:
    """Write the features that a run's encoder gives to all images of a source.

    Args:
        run: A run folder, or an ``encoder.safetensors``.
        data: A folder of images, or the name of a data set.
        out: A ``.npz`` or ``.parquet`` file that does not exist yet.
        reader: Left out: features as the encoder gives them. ``auto``: read (n, components) by the reader saved with
            the encoder, or where there is none by the default one, fitted on these images. ``centred``,
            ``half_white`` or ``white``: read by one of this kind, fitted on these images.
        reader_components: Principal components of a reader that is fitted.
        part: Which of its images, for data that has parts: all for pretraining, or those of train or test.
        data_root: Where named data sets lie.
        download: Allow downloads of data sets.
        max_unreadable: Share of unreadable images, from 0 to 1, that is tolerated; they are left out.
        progress: Called with the number of images done and in all.

    Returns:
        How many images were written, of which part, and what was left out.
    """
    check_target(out)
    if not 0 <= max_unreadable <= 1:
        raise UserError(f"max_unreadable must be from 0 to 1 (got {max_unreadable})")
    kind = asked_reader(None if reader == "auto" else reader, reader_components)
    if reader is None and reader_components is not None:
        raise UserError("reader_components changes nothing without a reader: add one, such as reader=auto")
    encoder = load_encoder(run)
    source = open_source(data, part=part, root=Path(data_root), download=download)

    def read(values: Tensor) -> Tensor:
        return values if reader is None else choose_reader(encoder, values, kind, reader_components)(values)

    machine = choose_machine([source])
    features = embed(encoder, source, out, machine, progress, max_unreadable=max_unreadable, read=read)
    return WrittenFeatures(len(features.index), part, len(features.problems), source.notes)


def embed(
    encoder: Encoder,
    source: Source,
    out: Path,
    machine: Machine | None = None,
    progress: Progress | None = None,
    *,
    max_unreadable: float = MAX_UNREADABLE,
    read: Callable[[Tensor], Tensor] = lambda values: values,
) -> Features:
    """Write the features of all images that can be read, and return them as the encoder gives them.

    A ``.npz`` holds ``features`` (n, d) float32, ``index`` (n,) and ``name`` (n,), and where the source has
    labels ``label`` (n,) and ``class_names``. A ``.parquet`` has a row for each image: index, name, label and
    class where there are labels, and features as a list. Bytes of a file's name that are not UTF-8 stand as
    ``\\xff`` in the names of images and classes. What is written has gone through ``read``, such as a reader.
    """
    check_target(out)
    features = encode(encoder, source, machine, progress, max_unreadable=max_unreadable)
    index = features.index.numpy()
    columns: dict[str, Any] = {
        "index": index,
        "name": np.array([storable(source.describe(int(number))) for number in index]),
    }
    if source.labels is not None:
        columns["label"] = source.labels[index]
    write = _write_npz if out.suffix == ".npz" else _write_parquet
    class_names = None if source.class_names is None else [storable(name) for name in source.class_names]
    with appearing(out) as temporary:
        write(temporary, columns, read(features.values).numpy(), class_names)
    return features


def check_target(out: Path) -> None:
    """Refuse a file that cannot be written, before anything is computed.

    Raises:
        UserError: for an unknown suffix, a file that exists, a folder that cannot be written, or a missing
            extra.
    """
    require_new_file(out, (".npz", ".parquet"))
    if out.suffix == ".parquet":
        _pyarrow()


def _write_npz(
    path: Path, columns: dict[str, Any], values: NDArray[np.float32], class_names: Sequence[str] | None
) -> None:
    if class_names is not None:
        columns["class_names"] = np.array(class_names)
    np.savez(path, features=values, **columns)


def _write_parquet(
    path: Path, columns: dict[str, Any], values: NDArray[np.float32], class_names: Sequence[str] | None
) -> None:
    arrow, parquet = _pyarrow()
    if class_names is not None and "label" in columns:
        columns["class"] = np.array(class_names)[columns["label"]]
    flat = arrow.array(values.reshape(-1))
    features = arrow.FixedSizeListArray.from_arrays(flat, values.shape[1])
    parquet.write_table(arrow.table({**columns, "features": features}), path)


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("writing .parquet files", "parquet") from None
    return pyarrow, pyarrow.parquet
