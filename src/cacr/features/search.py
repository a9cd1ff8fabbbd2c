"""``cacr search``: find the images of a source that are nearest to one image, or to words."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from PIL import Image
from torch import Tensor

from cacr.data import FileSource, Part, Source
from cacr.data.levels import preview, read_levels
from cacr.data.named_images import ImageNames
from cacr.data.prepare import Progress
from cacr.data.sources.deep import DeepSource
from cacr.encoders import Encoder
from cacr.encoders.preprocess import to_pil
from cacr.errors import UserError
from cacr.features.collection import Collection, Opened, open_images
from cacr.features.encode import MAX_UNREADABLE, encode
from cacr.features.machine import Machine
from cacr.features.neighbours import nearest_keys
from cacr.features.reader import asked_reader
from cacr.files import printable, storable
from cacr.reading.files import kind_of

LONGEST_NAME = 255
"""Longest file name, in bytes, on all common file systems."""


@dataclass(frozen=True)
class Neighbour:
    """One image found.

    Attributes:
        index: Its number in the source.
        name: Its file name, or ``cifar10[17]``.
        similarity: The cosine of its read features and those of the query.
        label: The name of its class; None without labels.
    """

    index: int
    name: str
    similarity: float
    label: str | None


@dataclass(frozen=True)
class Found:
    """The result of a search.

    Attributes:
        query: Name of the query image, or the words.
        image: The query image; None for words.
        neighbours: The nearest images, nearest first, without the query image itself.
        source: The source of the images.
        searched: Number of images compared.
        unreadable: Number of images left out because they are unreadable.
        notes: Notes for the user on the encoder and the features.
    """

    query: str
    image: Image.Image | None
    neighbours: tuple[Neighbour, ...]
    source: Source
    searched: int
    unreadable: int
    notes: tuple[str, ...] = ()


def search_source(
    run: str | os.PathLike[str],
    image: str | os.PathLike[str],
    data: str,
    *,
    k: int = 10,
    features: Path | None = None,
    cache: bool = True,
    images: str | None = None,
    labels: str | os.PathLike[str] | None = None,
    reader: str | None = None,
    reader_components: int | None = None,
    part: Part = "pretrain",
    data_root: Path | str = Path("data"),
    download: bool = False,
    max_unreadable: float = MAX_UNREADABLE,
    progress: Progress | None = None,
) -> Found:
    """Find the images of a source whose read features are nearest to those of one image, by cosine.

    Words need an image-text encoder, where text and images have vectors in one space.

    Args:
        run: What :func:`cacr.encoders.load_encoder` takes: a run folder, ``timm:NAME@FILE``, a checkpoint.
        image: The path of an image, the name or number of one in the data, or words that are not the name of an image.
        data: A folder of images, or the name of a data set.
        k: Number of images to find.
        features: An ``.npz`` of ``cacr embed`` with this data and this encoder, instead of encoding.
        cache: Store the features of image files for the next search, and use stored ones.
        images: A list of the images to search, or ``except:FILE``.
        labels: A CSV file with the columns ``path`` and ``label``; default: the labels of the data itself.
        reader: ``raw``, ``centred``, ``half_white`` or ``white``, fitted on the searched images; default: the one
            saved with the encoder, or else the default reader fitted on these images.
        reader_components: Number of principal components of that reader.
        part: Which images, for data with parts.
        data_root: Folder of named data sets.
        download: Allow downloads of data sets, and of the pretrained weights of ``timm:NAME``.
        max_unreadable: Largest accepted share of unreadable images; they are left out.
        progress: Called with the number of images encoded and the total.
    """
    asked_reader(reader, reader_components)
    opened = open_images(
        run, data, images=images, labels=labels, part=part, data_root=data_root, download=download
    )
    query = _open_query(image, opened)
    if query.image is None and (reader or reader_components):
        raise UserError("a search by words does not use a reader: leave out the reader")
    found = opened.collect(
        features=features,
        cache=cache,
        reader=reader,
        reader_components=reader_components,
        max_unreadable=max_unreadable,
        progress=progress,
    )
    if query.image is None:
        side = found.encoder.text
        query_vector, vectors = side.of_texts([query.name]), side.of_images(found.features)
    else:
        query_vector, vectors = found.read(_encode_query(query, found)), found.vectors
    # For one query, comparing with all images is faster than making an index.
    similarity, place = nearest_keys(query_vector, vectors, min(k + 1, len(found)))
    near = [
        Neighbour(number, found.name(number), value, found.label(number))
        for value, number in zip(similarity[0].tolist(), place[0].tolist(), strict=True)
        if found.index[number] != query.number
    ]
    loaded = found.encoder.loaded
    notes: tuple[str, ...] = (*(() if loaded is None else (loaded.text,)), *found.reused)
    if query.image is None:
        notes += found.encoder.text.tower.notes_on_length([query.name])
    return Found(query.name, query.image, tuple(near[:k]), found.source, len(found), found.unreadable, notes)


class _Query(NamedTuple):
    """What is searched for; for words, only the words.

    Attributes:
        image: The image as a person sees it.
        name: Name of the image, or the words.
        number: Number of the image, if it is in the source.
        file: Its path, if it was given as a file.
    """

    image: Image.Image | None
    name: str
    number: int | None
    file: Path | None = None


def _open_query(query: str | os.PathLike[str], opened: Opened) -> _Query:
    """The image of a file; if there is none, the image of the source with this name or number.

    Anything else is taken as words, if the encoder can encode text.
    """
    text, source = os.fspath(query), opened.source
    path = Path(text)
    if _may_be_file(text) and kind_of(path) is not None:
        image = preview(read_levels(path, printable(text))) if source.deep else to_pil(path)
        return _Query(image, storable(text), _number_of_file(path, source), path)
    if text.isdecimal():
        if len(text) > 18 or int(text) >= len(source):
            raise UserError(
                f"there is no file {text}, and no image with this number: {source.name} has {len(source):,} images"
            )
        number: int | None = int(text)
    else:
        number = ImageNames(source).find(text)
    if number is None and opened.encoder.load_text is not None and text.strip():
        return _Query(None, text, None)
    if number is None:
        raise UserError(
            f"{text}: No such file or directory, and no single image of this name in {source.name}; a search by words "
            "needs an encoder that was trained with captions (--method clip), or a CLIP of other software"
        )
    return _Query(source.read(number), storable(source.describe(number)), number)


def _may_be_file(text: str) -> bool:
    """Whether a file can have this name: a long sentence cannot, and the system would report an error."""
    return "\0" not in text and all(len(os.fsencode(part)) <= LONGEST_NAME for part in Path(text).parts)


def _number_of_file(path: Path, source: Source) -> int | None:
    """The number of the image in this file; None if it is not in the source."""
    if not isinstance(source, FileSource):
        return None
    status = path.stat()
    same = (n for n, own in enumerate(source.paths) if own.name == path.name and _is_file(own, status))
    return next(same, None)


def _is_file(path: Path, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.stat(), status)
    except OSError:
        return False


def _encode_query(query: _Query, found: Collection) -> Tensor:
    """(1, feature_dim); for images with other channels or bits, the encoder does not get the picture that is shown."""
    if found.source.deep:
        if query.number is not None:
            return found.features[torch.from_numpy(found.index == query.number)]
        assert query.file is not None  # without a number, it was given as a file
        alone = DeepSource(query.name, query.file.parent, [query.file.name])
        return encode(found.encoder, alone, Machine()).values
    assert query.image is not None
    return _encode_one(found.encoder, query.image)[None]


@torch.inference_mode()
def _encode_one(encoder: Encoder, image: Image.Image) -> Tensor:
    """(feature_dim,) on the CPU.

    Always computed on the CPU: so the query gets the same numbers whether the images were just encoded on another
    device or their features were stored.
    """
    encoder = encoder.to("cpu", memory_format=torch.channels_last)  # type: ignore[call-overload]
    features: Tensor = encoder(encoder.preprocess(image)[None])
    return features[0].float()
