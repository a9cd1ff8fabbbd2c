"""``cacr search``: the images of a source that are nearest to one image."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import normalize

from cacr.data import FileSource, Part, Source, open_source
from cacr.data.prepare import Progress
from cacr.encoders import Encoder, load_encoder
from cacr.encoders.preprocess import to_pil
from cacr.errors import UserError
from cacr.features.encode import MAX_UNREADABLE, Features, encode
from cacr.features.machine import Machine, choose_machine
from cacr.features.neighbours import nearest_keys
from cacr.features.reader import asked_reader, choose_reader
from cacr.files import storable
from cacr.reading.arrays import read_npz
from cacr.reading.files import kind_of

_ARRAYS = ("features", "index", "name")

SAME_FEATURES = 1e-3
"""Largest difference, as a share of its length, of a stored feature from one computed anew by its encoder."""


@dataclass(frozen=True)
class Neighbour:
    """One image that was found.

    Attributes:
        index: Its number in the source.
        name: Its file's name, or ``cifar10[17]``.
        similarity: The cosine of its features and the query's, both as they are read.
        label: The name of its class; None without labels.
    """

    index: int
    name: str
    similarity: float
    label: str | None


@dataclass(frozen=True)
class Found:
    """What a search found.

    Attributes:
        query: Name of the image that was searched for.
        image: That image.
        neighbours: The nearest images, nearest first, without the image itself.
        source: Where they are.
        searched: Images that were compared.
        unreadable: Images that were left out because they cannot be read.
    """

    query: str
    image: Image.Image
    neighbours: tuple[Neighbour, ...]
    source: Source
    searched: int
    unreadable: int


def search_source(
    run: str | os.PathLike[str],
    image: str | os.PathLike[str],
    data: str,
    *,
    k: int = 10,
    features: Path | None = None,
    reader: str | None = None,
    reader_components: int | None = None,
    part: Part = "pretrain",
    data_root: Path | str = Path("data"),
    download: bool = False,
    max_unreadable: float = MAX_UNREADABLE,
    progress: Progress | None = None,
) -> Found:
    """Find the images of a source whose features, once read, are nearest to those of one image, by cosine.

    Args:
        run: A run folder, or an ``encoder.safetensors``.
        image: The path of an image, or the number of one in the data.
        data: A folder of images, or the name of a data set.
        k: Images to find.
        features: The ``.npz`` that ``cacr embed`` wrote of this data with this encoder: spares encoding it.
        reader: ``raw``, ``centred``, ``half_white`` or ``white``, fitted on the images that are searched; left out:
            the one saved with the encoder, or where there is none the default one fitted on these images.
        reader_components: Principal components of that reader.
        part: Which images, for data that has parts.
        data_root: Where named data sets lie.
        download: Allow downloads of data sets.
        max_unreadable: Share of unreadable images that is tolerated; they are left out.
        progress: Called with the number of images encoded and in all.
    """
    kind = asked_reader(reader, reader_components)
    encoder = load_encoder(run)
    source = open_source(data, part=part, root=Path(data_root), download=download)
    query, number = _open_query(image, source)
    machine = choose_machine([source])
    wanted = _encode_one(encoder, query)
    stored = None if features is None else read_features(features, encoder, source)
    known = stored or encode(encoder, source, machine, progress, max_unreadable=max_unreadable)
    read = choose_reader(encoder, known.values, kind, reader_components)
    similarity, place = nearest_keys(
        normalize(read(wanted[None]), dim=1),
        normalize(read(known.values), dim=1),
        min(k + 1, len(known.index)),
    )
    found = []
    for value, where in zip(similarity[0].tolist(), place[0].tolist(), strict=True):
        index = int(known.index[where])
        if not _is_query(index, image, number, source):
            found.append(Neighbour(index, storable(source.describe(index)), value, _label(source, index)))
    if stored is not None and found:
        _require_same_encoder(encoder, source, stored, found[0].index, features)
    name = storable(os.fspath(image) if number is None else source.describe(number))
    return Found(name, query, tuple(found[:k]), source, len(known.index), len(known.problems))


def _open_query(image: str | os.PathLike[str], source: Source) -> tuple[Image.Image, int | None]:
    """The image to search for, and its number if it was given as one of the source's."""
    text = os.fspath(image)
    if not text.isdecimal() or kind_of(Path(text)) is not None:
        return to_pil(Path(text)), None
    if len(text) > 18 or int(text) >= len(source):
        raise UserError(
            f"there is no file {text}, and {source.name} has {len(source):,} images, so none of this number"
        )
    return source.read(int(text)), int(text)


@torch.inference_mode()
def _encode_one(encoder: Encoder, image: Image.Image) -> Tensor:
    """(feature_dim,) on the CPU."""
    features: Tensor = encoder(encoder.preprocess(image)[None])
    return features[0].float()


def _is_query(index: int, image: str | os.PathLike[str], number: int | None, source: Source) -> bool:
    if number is not None or not isinstance(source, FileSource):
        return index == number
    try:
        return source.paths[index].samefile(image)
    except OSError:
        return False


def _label(source: Source, index: int) -> str | None:
    if source.labels is None:
        return None
    label = int(source.labels[index])
    return storable(source.class_names[label]) if source.class_names else str(label)


def read_features(path: Path, encoder: Encoder, source: Source) -> Features:
    """The features of a source from a file of ``cacr embed``.

    Raises:
        UserError: the file is damaged, or of other data or another kind of encoder.
    """
    stored = read_npz(path, _ARRAYS)
    if len(stored) < len(_ARRAYS):
        raise UserError(f"{path} is not an .npz file that `cacr embed` wrote")
    values, index, names = (stored[name] for name in _ARRAYS)
    sound = values.ndim == 2 and values.dtype == np.float32 and len(values) > 0 and np.isfinite(values).all()
    if not sound or index.shape != (len(values),) or index.dtype != np.int64 or names.shape != index.shape:
        raise UserError(f"{path} is not an .npz file that `cacr embed` wrote")
    if values.shape[1] != encoder.feature_dim:
        raise UserError(
            f"{path} holds features of dimension {values.shape[1]}, this encoder gives {encoder.feature_dim}: "
            "they are of another encoder, or were read; write them again with `cacr embed`, without --reader"
        )
    if (
        index.min() < 0
        or index.max() >= len(source)
        or any(
            storable(source.describe(int(number))) != name for number, name in zip(index, names, strict=True)
        )
    ):
        raise UserError(
            f"{path} does not hold the features of {source.name}: its images have other names; "
            "write them again with `cacr embed`"
        )
    return Features(torch.from_numpy(values), torch.from_numpy(index))


def _require_same_encoder(
    encoder: Encoder, source: Source, stored: Features, index: int, path: Path | None
) -> None:
    """Encode the nearest image anew, so that another encoder's features are not taken for this one's."""
    again = encode(encoder, source.subset(np.array([index])), Machine()).values[0]
    kept = stored.values[int((stored.index == index).nonzero()[0])]
    if (again - kept).norm() > SAME_FEATURES * again.norm():
        raise UserError(
            f"the features in {path} are not those that this encoder gives to {source.describe(index)}: "
            "they are of another encoder or of changed images; write them again with `cacr embed`"
        )
