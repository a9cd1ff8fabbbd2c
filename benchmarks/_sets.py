"""The labelled sets on which the rules behind ``auto`` are chosen and tested, as arrays of square images."""

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIDE = 72
"""Pixels per side of the stored images: what the smallest of the sets has."""

CHOSEN_ON = ("cifar10", "caltech101", "gtsrb")
"""Sets whose held-out training images decide between settings."""

TESTED_ON = ("flowers102", "pets", "imagenette", "elpv")
"""Sets on which what was decided is tested. Two rules used them too: 300 steps for 64 px, a trained first layer."""

JUDGED = 1 / 3
"""Share of the training images of a small set that is held out to choose settings by."""

Labelled = tuple[NDArray[np.uint8], NDArray[np.int64]]


@dataclass(frozen=True)
class Parts:
    """Files of one set, as ``npz:FILE`` takes them.

    Attributes:
        fit: training images without ``judge``.
        judge: training images that are held out to choose settings by.
        train: all training images.
        test: looked at once.
    """

    fit: str
    judge: str
    train: str
    test: str


def prepare(name: str, data: Path, cache: Path) -> Parts:
    """Write the parts of a set, unless they are there.

    Args:
        name: one of :data:`CHOSEN_ON` or :data:`TESTED_ON`.
        data: a folder with ``cifar-10-batches-py``, ``transfer/`` and ``imagenette-mini``.
        cache: where the arrays go.
    """
    names = ("fit", "judge", "train", "test")
    files = {part: cache / f"{name}-{part}.npz" for part in names}
    if not all(file.exists() for file in files.values()):
        cache.mkdir(parents=True, exist_ok=True)
        folders = photo_folders(name, data)
        train, test = map(_classes, folders) if folders else _LOADERS[name](data)
        judged = _held_out(train[1], name)
        for part, (x, y) in {
            "fit": (train[0][~judged], train[1][~judged]),
            "judge": (train[0][judged], train[1][judged]),
            "train": train,
            "test": test,
        }.items():
            np.savez(files[part], x=x, y=y)
    return Parts(*(f"npz:{files[part]}" for part in names))


def _held_out(labels: NDArray[np.int64], name: str) -> NDArray[np.bool_]:
    """A third of each class, at most 2,000 images in all; drawn by the set's name."""
    rng = np.random.default_rng(sum(map(ord, name)))
    share = min(JUDGED, 2000 / len(labels))
    chosen = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        own = rng.permutation(np.flatnonzero(labels == label))
        chosen[own[: max(1, round(share * len(own)))]] = True
    return chosen


def _square(path: Path) -> NDArray[np.uint8]:
    with Image.open(path) as opened:
        image = opened.convert("RGB")
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    cut = image.crop((left, top, left + side, top + side))
    return np.asarray(cut.resize((SIDE, SIDE), Image.Resampling.BICUBIC, reducing_gap=3))


def _classes(folder: Path) -> Labelled:
    def each() -> Iterator[tuple[NDArray[np.uint8], int]]:
        for label, own in enumerate(sorted(path for path in folder.iterdir() if path.is_dir())):
            for file in sorted(own.iterdir()):
                yield _square(file), label

    images, labels = zip(*each(), strict=True)
    return np.stack(images), np.array(labels)


def photo_folders(name: str, data: Path) -> tuple[Path, Path] | None:
    """The folders with the training and the test images of a set; None where its images are no files in classes."""
    if name == "imagenette":
        return data / "imagenette-mini" / "train", data / "imagenette-mini" / "val"
    if name in _LOADERS:
        return None
    return data / "transfer" / name / "train", data / "transfer" / name / "test"


def _cifar10(data: Path) -> tuple[Labelled, Labelled]:
    """The first 20,000 training images, and 2,000 test images."""
    from cacr.data import open_source

    def some(part: str, count: int) -> Labelled:
        source = open_source("cifar10", part=part, root=data)  # type: ignore[arg-type]
        images = np.stack([np.asarray(source.read(index)) for index in range(count)])
        assert source.labels is not None
        return images, np.asarray(source.labels[:count], dtype=np.int64)

    return some("pretrain", 20_000), some("test", 2_000)


def _elpv(data: Path) -> tuple[Labelled, Labelled]:
    """2,624 solar cells (package ``elpv-dataset``, for non-commercial use): broken if more likely so than not."""
    spec = find_spec("elpv_dataset")
    if spec is None or spec.origin is None:
        raise SystemExit("the set elpv needs: pip install elpv-dataset (its licence: non-commercial use)")
    folder = Path(spec.origin).parent / "data"
    with (folder / "labels.csv").open(encoding="utf-8") as file:
        rows = [line for line in csv.reader(file, delimiter=" ", skipinitialspace=True) if line]
    images = np.stack([_square(folder / row[0]) for row in rows])
    labels = np.array([float(row[1]) > 0.5 for row in rows], dtype=np.int64)
    tested = np.random.default_rng(0).permutation(len(labels)) < len(labels) // 3
    return (images[~tested], labels[~tested]), (images[tested], labels[tested])


_LOADERS: dict[str, Callable[[Path], tuple[Labelled, Labelled]]] = {"cifar10": _cifar10, "elpv": _elpv}
