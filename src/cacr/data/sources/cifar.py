"""CIFAR-10 and CIFAR-100, from their original files."""

import hashlib
import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cacr.data.download import fetch_archive, not_found
from cacr.data.registry import SOURCES, Request
from cacr.data.source import ArraySource
from cacr.errors import UserError
from cacr.reading.files import kind_of, read_bytes

_LARGEST = 200 * 2**20
"""Upper limit of the size of a published file, in bytes; the largest is CIFAR-100's training file."""


@dataclass(frozen=True)
class Layout:
    """The published files of a data set: names, MD5 sums, and the keys inside them."""

    folder: str
    url: str
    archive_md5: str
    train: dict[str, str]
    test: dict[str, str]
    meta: tuple[str, str]
    labels_key: str
    names_key: str


CIFAR10 = Layout(
    folder="cifar-10-batches-py",
    url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
    archive_md5="c58f30108f718f92721af3b95e74349a",
    train={
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    },
    test={"test_batch": "40351d587109b95175f43aff81a1287e"},
    meta=("batches.meta", "5ff9c542aee3614f3951f8cda6e48888"),
    labels_key="labels",
    names_key="label_names",
)
CIFAR100 = Layout(
    folder="cifar-100-python",
    url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
    archive_md5="eb9058c3a382ffc7106e4002c42a8d85",
    train={"train": "16019d7e3df5f24257cddd939b257f8d"},
    test={"test": "f0ef6b0ae62326f3e7ffdfab6717acfc"},
    meta=("meta", "7973b15100ade9c7d40fb424638fde48"),
    labels_key="fine_labels",
    names_key="fine_label_names",
)


@SOURCES.register("cifar10")
def open_cifar10(request: Request) -> ArraySource:
    """CIFAR-10: 50,000 + 10,000 photos of 10 classes, 32 x 32."""
    return open_cifar("cifar10", CIFAR10, request)


@SOURCES.register("cifar100")
def open_cifar100(request: Request) -> ArraySource:
    """CIFAR-100: 50,000 + 10,000 photos of 100 classes, 32 x 32."""
    return open_cifar("cifar100", CIFAR100, request)


def open_cifar(name: str, layout: Layout, request: Request) -> ArraySource:
    """One part of a data set whose files are in ``root``, or in a folder of the published name."""
    folder = _find(name, layout, request)
    files = layout.test if request.part == "test" else layout.train
    batches = [read_checked_pickle(folder / file, md5) for file, md5 in files.items()]
    names = read_checked_pickle(folder / layout.meta[0], layout.meta[1])[layout.names_key]
    pixels = np.concatenate([batch["data"] for batch in batches]).reshape(-1, 3, 32, 32)
    labels = np.concatenate([batch[layout.labels_key] for batch in batches])
    return ArraySource(name, torch.from_numpy(pixels), labels=labels, class_names=names)


def _find(name: str, layout: Layout, request: Request) -> Path:
    root = request.set_folder()
    places = [root / layout.folder, root]
    first = next(iter(layout.train))
    for place in places:
        if (place / first).is_file():
            return place
    if not request.download:
        raise not_found(name, places[:1])
    fetch_archive(name, layout.url, layout.archive_md5, root)
    return places[0]


def read_checked_pickle(path: Path, md5: str) -> dict[str, Any]:
    """Read one of the published pickles; its checksum is verified before anything is interpreted."""
    if kind_of(path) is None:
        raise UserError(f"{path} is missing: the folder {path.parent} is incomplete, download it again")
    content = read_bytes(path, at_most=_LARGEST)
    if hashlib.md5(content, usedforsecurity=False).hexdigest() != md5:
        raise UserError(
            f"{path} is not the published file (its MD5 differs): remove it and download it again"
        )
    loaded: dict[str, Any] = _ArrayUnpickler(io.BytesIO(content), encoding="latin1").load()
    return loaded


class _ArrayUnpickler(pickle.Unpickler):
    """Creates only NumPy arrays: a pickle could otherwise run any function."""

    _allowed: dict[str, Callable[..., Any] | type] = {  # noqa: RUF012  (a constant)
        "_reconstruct": np.empty(0).__reduce__()[0],  # type: ignore[dict-item]
        "ndarray": np.ndarray,
        "dtype": np.dtype,
    }

    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] == "numpy" and name in self._allowed:
            return self._allowed[name]
        raise UserError(
            f"the file asks for {module}.{name}, which a file of arrays does not need: it is refused"
        )
