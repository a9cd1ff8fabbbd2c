"""STL-10, from its original binary files."""

from pathlib import Path

import numpy as np
import torch

from cacr.data.download import fetch_archive, not_found
from cacr.data.registry import SOURCES, Request
from cacr.data.source import ArraySource, Indices
from cacr.errors import UserError
from cacr.reading.files import kind_of, read_bytes, read_text
from cacr.reading.memory import require_memory

_FOLDER = "stl10_binary"
_URL = "https://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz"
_ARCHIVE_MD5 = "91f7769df0f17e558f3565bffb0c7dfb"
_SIDE = 96
_IMAGE_BYTES = 3 * _SIDE * _SIDE


@SOURCES.register("stl10")
def open_stl10(request: Request) -> ArraySource:
    """STL-10: 5,000 + 8,000 labelled photos of 10 classes and 100,000 without labels, 96 x 96."""
    folder = _find(request)
    unlabeled = folder / "unlabeled_X.bin"
    if request.part == "pretrain" and unlabeled.is_file():
        return ArraySource("stl10", _read_images([folder / "train_X.bin", unlabeled]))
    part = "test" if request.part == "test" else "train"
    images = _read_images([folder / f"{part}_X.bin"])
    class_names = read_text(_present(folder / "class_names.txt")).split()
    labels = _read_labels(folder / f"{part}_y.bin", len(images), len(class_names))
    source = ArraySource("stl10", images, labels=labels, class_names=class_names)
    if request.part == "pretrain":
        return source.with_notes(f"{unlabeled} is missing: pretraining uses only the images of train")
    return source


def _find(request: Request) -> Path:
    root = request.set_folder()
    places = [root / _FOLDER, root]
    for place in places:
        if (place / "train_X.bin").is_file():
            return place
    if not request.download:
        raise not_found("stl10", places[:1])
    fetch_archive("stl10", _URL, _ARCHIVE_MD5, root)
    return places[0]


def _read_images(files: list[Path]) -> torch.Tensor:
    """(N, 3, 96, 96) of several files, filled in pieces: the unlabelled images take 2.8 GB only once."""
    for file in files:
        if not file.is_file() or file.stat().st_size % _IMAGE_BYTES:
            raise UserError(f"{file} is missing or cut off; download stl10 again")
    counts = [file.stat().st_size // _IMAGE_BYTES for file in files]
    require_memory(sum(counts) * _IMAGE_BYTES, f"{files[0].parent}")
    images = torch.empty((sum(counts), 3, _SIDE, _SIDE), dtype=torch.uint8)
    start = 0
    for file, count in zip(files, counts, strict=True):
        stored = np.memmap(file, dtype=np.uint8, mode="r", shape=(count, 3, _SIDE, _SIDE))
        for begin in range(0, count, 1000):  # columns come before rows in the file
            block = np.ascontiguousarray(stored[begin : begin + 1000].transpose(0, 1, 3, 2))
            images[start + begin : start + begin + len(block)] = torch.from_numpy(block)
        start += count
    return images


def _read_labels(file: Path, images: int, classes: int) -> Indices:
    """(images,) classes from 0; the file counts them from 1."""
    labels = np.frombuffer(read_bytes(_present(file)), dtype=np.uint8).astype(np.int64) - 1
    if len(labels) != images:
        raise UserError(
            f"{file} has {len(labels):,} labels for {images:,} images: it is damaged; download stl10 again"
        )
    if np.any((labels < 0) | (labels >= classes)):
        raise UserError(
            f"{file} has labels that are not 1 to {classes}, the number of names in class_names.txt: "
            "the data set is damaged; download stl10 again"
        )
    return labels


def _present(file: Path) -> Path:
    if kind_of(file) is None:
        raise UserError(f"{file} is missing; download stl10 again")
    return file
