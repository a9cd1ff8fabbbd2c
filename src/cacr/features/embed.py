"""``cacr embed``: write the features of a whole source to a file."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import normalize

from cacr.data import KnownLabels, Part, Source, known_labels, open_source
from cacr.data.prepare import Progress
from cacr.encoders import Encoder, load_encoder
from cacr.errors import UserError
from cacr.features.encode import MAX_UNREADABLE, Features, encode
from cacr.features.machine import Machine, choose_machine
from cacr.features.reader import asked_reader, choose_reader
from cacr.features.written import TABLES, FeatureTable, check_target
from cacr.files import storable


@dataclass(frozen=True)
class WrittenFeatures:
    """Facts about the written features.

    Attributes:
        images: Number of images whose features were written.
        part: The part of the data: ``pretrain``, ``train`` or ``test``.
        unreadable: Number of images left out because they are unreadable.
        notes: Notes for the user on how the data was read.
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
    images: str | None = None,
    labels: str | os.PathLike[str] | None = None,
    part: Part = "pretrain",
    data_root: Path | str = Path("data"),
    download: bool = False,
    max_unreadable: float = MAX_UNREADABLE,
    progress: Progress | None = None,
) -> WrittenFeatures:
    """Write the features of all images of a source, by a run's encoder.

    Args:
        run: What :func:`cacr.encoders.load_encoder` takes: a run folder, ``timm:NAME@FILE``, a checkpoint.
        data: A folder of images, or the name of a data set.
        out: A ``.npz``, ``.parquet`` or ``.csv`` file that does not exist yet.
        reader: None: features as the encoder gives them. ``auto``: features after the reader saved with the encoder
            (n, components), or else after the default reader, fitted on these images. ``centred``, ``half_white`` or
            ``white``: after such a reader, fitted on these images.
        reader_components: Number of principal components of a fitted reader.
        images: A list of the images to use, or ``except:FILE``.
        labels: A CSV file with the columns ``path`` and ``label``; default: the labels of the data itself.
        part: Which images, for data with parts: all for pretraining, or those of train or test.
        data_root: Folder of named data sets.
        download: Allow downloads of data sets, and of the pretrained weights of ``timm:NAME``.
        max_unreadable: Largest accepted share of unreadable images, from 0 to 1; they are left out.
        progress: Called with the number of images done and the total.

    Returns:
        The number of images written, their part, and notes on images left out.
    """
    check_target(out)
    if not 0 <= max_unreadable <= 1:
        raise UserError(f"max_unreadable must be from 0 to 1 (got {max_unreadable})")
    kind = asked_reader(None if reader == "auto" else reader, reader_components)
    if reader is None and reader_components is not None:
        raise UserError("reader_components has no effect without a reader: add one, such as reader=auto")
    encoder = load_encoder(run, download=download)
    source = open_source(data, part=part, root=Path(data_root), download=download, images=images)
    known = known_labels(source, None if labels is None else Path(labels))

    def read(values: Tensor) -> Tensor:
        return values if reader is None else choose_reader(encoder, values, kind, reader_components)(values)

    features = embed(
        encoder,
        source,
        out,
        choose_machine([source]),
        progress,
        known=known,
        max_unreadable=max_unreadable,
        read=read,
    )
    loaded = () if encoder.loaded is None else (encoder.loaded.text,)
    notes = (*loaded, *source.notes, *(() if known is None else known.notes))
    return WrittenFeatures(len(features.index), part, len(features.problems), notes)


def embed(
    encoder: Encoder,
    source: Source,
    out: Path,
    machine: Machine | None = None,
    progress: Progress | None = None,
    *,
    known: KnownLabels | None = None,
    max_unreadable: float = MAX_UNREADABLE,
    read: Callable[[Tensor], Tensor] = lambda values: values,
) -> Features:
    """Write the features of all readable images, and return them as the encoder gives them.

    A ``.npz`` has ``features`` (n, d) float32, ``index`` (n,) and ``name`` (n,), and if there are labels ``label``
    (n,), -1 for unknown, and ``class_names``. A ``.parquet`` or ``.csv`` has one row per image: ``index``, ``path``,
    ``label`` if there are labels, ``features``, its position on a map (``projection_x``, ``projection_y``) and its
    ``neighbors``. Bytes of a file name that are not UTF-8 are written as ``\\xff``. ``read``, such as a reader, is
    applied to the written features; map and neighbours use the features that a search compares.
    """
    check_target(out)
    features = encode(encoder, source, machine, progress, max_unreadable=max_unreadable)
    index = features.index.numpy()
    known = known or known_labels(source, None)
    if known is not None and not known.class_names:
        known = None
    vectors = torch.empty(0)
    if out.suffix in TABLES:
        vectors = normalize(choose_reader(encoder, features.values)(features.values), dim=1)
    FeatureTable(
        index=index,
        name=[storable(source.describe(int(number))) for number in index],
        label=None if known is None else known.labels[index],
        class_names=None if known is None else [storable(name) for name in known.class_names],
        values=read(features.values).numpy(),
        vectors=vectors,
    ).write(out)
    return features
