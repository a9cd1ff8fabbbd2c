"""``cacr embed``: features of a whole source as a file."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacr.data import Part, Source, open_source
from cacr.encoders import Encoder, load_encoder
from cacr.errors import MissingExtraError, UserError
from cacr.evaluation.features import Progress, encode
from cacr.evaluation.machine import Machine, choose_machine


def embed_source(
    run: str | os.PathLike[str],
    data: str,
    out: Path,
    *,
    part: Part = "pretrain",
    data_root: Path | str = Path("data"),
    download: bool = False,
    progress: Progress | None = None,
) -> int:
    """Write the features that a run's encoder gives to all images of a source.

    Args:
        run: A run folder, or an ``encoder.safetensors``.
        data: A folder of images, or the name of a data set.
        out: A ``.npz`` or ``.parquet`` file that does not exist yet.
        part: Which of its images, for data that has parts: all for pretraining, or those of train or test.
        data_root: Where named data sets lie.
        download: Allow downloads of data sets.
        progress: Called with the number of images done and in all.

    Returns:
        The number of images written.
    """
    check_target(out)
    encoder = load_encoder(run)
    source = open_source(data, part=part, root=Path(data_root), download=download)
    return embed(encoder, source, out, choose_machine([source]), progress)


def embed(
    encoder: Encoder,
    source: Source,
    out: Path,
    machine: Machine | None = None,
    progress: Progress | None = None,
) -> int:
    """Write the features of all images that can be read; returns how many there are.

    A ``.npz`` holds ``features`` (n, d) float32, ``index`` (n,) and ``name`` (n,), and where the source has
    labels ``label`` (n,) and ``class_names``. A ``.parquet`` has a row for each image: index, name, label and
    class where there are labels, and features as a list.
    """
    check_target(out)
    features = encode(encoder, source, machine, progress)
    index = features.index.numpy()
    columns: dict[str, Any] = {
        "index": index,
        "name": np.array([source.describe(int(number)) for number in index]),
    }
    if source.labels is not None:
        columns["label"] = source.labels[index]
    write = _write_npz if out.suffix == ".npz" else _write_parquet
    temporary = out.with_name(f".{out.stem}.tmp{out.suffix}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write(temporary, columns, features.values.numpy(), source.class_names)
        temporary.replace(out)
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)
    return len(index)


def check_target(out: Path) -> None:
    """Refuse a file that cannot be written, before anything is computed.

    Raises:
        UserError: for an unknown suffix, a file that exists, or a missing extra.
    """
    if out.suffix not in (".npz", ".parquet"):
        raise UserError(f"{out} must end in .npz or .parquet")
    if out.exists():
        raise UserError(f"{out} exists already: remove it, or choose another name")
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
