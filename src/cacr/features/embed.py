"""``cacr embed``: features of a whole source as a file."""

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
    images: str | None = None,
    labels: str | os.PathLike[str] | None = None,
    part: Part = "pretrain",
    data_root: Path | str = Path("data"),
    download: bool = False,
    max_unreadable: float = MAX_UNREADABLE,
    progress: Progress | None = None,
) -> WrittenFeatures:
    """Write the features that a run's encoder gives to all images of a source.

    Args:
        run: What :func:`cacr.encoders.load_encoder` takes: a run folder, ``timm:NAME@FILE``, a checkpoint.
        data: A folder of images, or the name of a data set.
        out: A ``.npz``, ``.parquet`` or ``.csv`` file that does not exist yet.
        reader: Left out: features as the encoder gives them. ``auto``: read (n, components) by the reader saved with
            the encoder, or where there is none by the default one, fitted on these images. ``centred``,
            ``half_white`` or ``white``: read by one of this kind, fitted on these images.
        reader_components: Principal components of a reader that is fitted.
        images: A list of the images to use, or ``except:FILE``.
        labels: A CSV file with the columns ``path`` and ``label``; left out: the data's own labels.
        part: Which of its images, for data that has parts: all for pretraining, or those of train or test.
        data_root: Where named data sets lie.
        download: Allow downloads of data sets, and of the pretrained weights of ``timm:NAME``.
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
    """Write the features of all images that can be read, and return them as the encoder gives them.

    A ``.npz`` holds ``features`` (n, d) float32, ``index`` (n,) and ``name`` (n,), and where there are labels ``label``
    (n,), -1 for unknown, and ``class_names``. A ``.parquet`` or ``.csv`` has a row for each image: ``index``, ``path``,
    ``label`` where there are labels, ``features``, its place on a map (``projection_x``, ``projection_y``) and its
    ``neighbors``. Bytes of a file's name that are not UTF-8 stand as ``\\xff``. What is written has gone through
    ``read``, such as a reader; map and neighbours are those of features as search compares them.
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
