"""Cache of features of image files: a second search encodes nothing.

A cache file has the format of ``cacr embed``. Its name depends on everything that features depend on, so features of
another encoder or of changed images are never used. Cache files can be deleted at any time; this only costs time.
"""

import json
import os
import shutil
from contextlib import suppress
from dataclasses import asdict, replace
from hashlib import blake2b
from pathlib import Path

import numpy as np
import torch

from cacr.data import FileSource, Problem, Source
from cacr.data.prepare import Progress
from cacr.data.sources.deep import DeepSource
from cacr.encoders import Encoder
from cacr.encoders.reader_file import weights_digest
from cacr.errors import UserError
from cacr.features.encode import MAX_UNREADABLE, Features, encode
from cacr.features.machine import Machine
from cacr.features.stored import read_features
from cacr.features.written import FeatureTable
from cacr.files import printable, storable
from cacr.runs.result import versions

MOST_BYTES = 2 * 2**30
"""Largest total size of the cache; the files unused for longest are removed. A file over half of it is not stored."""


def cache_folder() -> Path | None:
    """``cacr/features`` in ``$XDG_CACHE_HOME``, else in ``~/.cache``; None for a user without a home folder."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        # By convention, a value that is not an absolute path is ignored.
        base = given if given.is_absolute() else Path.home() / ".cache"
    except RuntimeError:
        return None
    return base / "cacr" / "features"


def encode_once(
    encoder: Encoder,
    source: Source,
    machine: Machine,
    progress: Progress | None = None,
    *,
    max_unreadable: float = MAX_UNREADABLE,
) -> Features:
    """Like :func:`encode`, but features of image files are stored and read again the next time.

    ``cached`` of the result says whether they were read. Images that were unreadable then are not tried again. If the
    cache cannot be read or written, it is ignored.
    """
    place = _place(encoder, source)
    kept = None if place is None else _read(place, encoder, source, max_unreadable)
    if kept is not None:
        return kept
    features = encode(encoder, source, machine, progress, max_unreadable=max_unreadable)
    if place is not None:
        _write(place, features, source)
    return features


def _place(encoder: Encoder, source: Source) -> Path | None:
    """The file for these features: named by the weights, the preprocessing, and each file with its size and time.

    None if there are too many images, or if they are not files.
    """
    folder, size = cache_folder(), 4 * len(source) * encoder.feature_dim
    if folder is None or size > MOST_BYTES / 2 or not isinstance(source, FileSource | DeepSource):
        return None
    info = {name: value for name, value in asdict(encoder.info).items() if name != "training"}
    kind = type(source).__name__, str(source.paths.root)  # image names are stored as they are given
    about = [versions()["cacr"], weights_digest(encoder), info, kind]
    digest = blake2b(json.dumps(about, sort_keys=True).encode(), digest_size=16)
    for path in source.paths:
        try:
            found = path.stat()
            state = found.st_size, found.st_mtime_ns
        except OSError:  # the file cannot be read either, and is left out
            state = -1, -1
        digest.update(b"\0".join([os.fsencode(path.absolute()), f"{state}\n".encode()]))
    return folder / f"{digest.hexdigest()}.npz"


def _read(place: Path, encoder: Encoder, source: Source, max_unreadable: float) -> Features | None:
    """The stored features; None if there are none, or if they cannot be used."""
    try:
        found = read_features(place, encoder, source)
    except UserError:  # missing, damaged, or larger than the memory: as if there were none
        return None
    missing = np.setdiff1d(np.arange(len(source)), found.index.numpy()).tolist()
    if len(missing) > max_unreadable * len(source):  # encoding will say which and why
        return None
    with suppress(OSError):
        os.utime(place)  # mark as used
    before = "it was unreadable when its features were first computed"
    problems = tuple(Problem(index, printable(source.describe(index)), before) for index in missing)
    return replace(found, problems=problems, cached=True)


def _write(place: Path, features: Features, source: Source) -> None:
    with suppress(OSError, UserError):
        place.parent.mkdir(
            mode=0o700, parents=True, exist_ok=True
        )  # features reveal something about private photos
        if shutil.disk_usage(place.parent).free < 4 * features.values.nbytes:
            return
        index = features.index.numpy()
        FeatureTable(
            index=index,
            name=[storable(source.describe(number)) for number in index.tolist()],
            label=None,
            class_names=None,
            values=features.values.numpy(),
            vectors=torch.empty(0),
        ).write(place)
        _remove_oldest(place.parent)


def _remove_oldest(folder: Path) -> None:
    """Remove the files unused for longest, until the limit is kept; also temporary files of killed processes."""
    found = [(path, path.stat()) for path in folder.glob("*.npz")]
    total = 0
    for path, state in sorted(found, key=lambda each: each[1].st_mtime_ns, reverse=True):
        total += state.st_size
        if total > MOST_BYTES:
            path.unlink(missing_ok=True)
