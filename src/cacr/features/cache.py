"""Features of files that were encoded before, kept in the user's cache: a second search encodes nothing.

A file of the cache is what ``cacr embed`` writes. Its name is made of all that features depend on, so that one of
another encoder, or of changed images, is never asked for. Whoever removes it loses time and nothing else.
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
"""Of all files of the cache; those not asked for longest are removed. One of more than half is not written."""


def cache_folder() -> Path | None:
    """``cacr/features`` in ``$XDG_CACHE_HOME``, or else in ``~/.cache``; None for a user without a home."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        # The convention of these variables says that one which is no absolute path is not looked at.
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
    """As :func:`encode`; of images in files the features are kept, and read again the next time.

    ``cached`` of what is returned says whether they were. Images that could not be read then are not tried again. A
    cache that cannot be written or read is as good as none.
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
    """The file for these features: of the weights, how images are prepared, and each file with its size and time.

    None where they are too many, or not of files.
    """
    folder, size = cache_folder(), 4 * len(source) * encoder.feature_dim
    if folder is None or size > MOST_BYTES / 2 or not isinstance(source, FileSource | DeepSource):
        return None
    info = {name: value for name, value in asdict(encoder.info).items() if name != "training"}
    kind = type(source).__name__, str(source.paths.root)  # names are kept as they are given
    about = [versions()["cacr"], weights_digest(encoder), info, kind]
    digest = blake2b(json.dumps(about, sort_keys=True).encode(), digest_size=16)
    for path in source.paths:
        try:
            found = path.stat()
            state = found.st_size, found.st_mtime_ns
        except OSError:  # who cannot be looked at cannot be read either, and is left out
            state = -1, -1
        digest.update(b"\0".join([os.fsencode(path.absolute()), f"{state}\n".encode()]))
    return folder / f"{digest.hexdigest()}.npz"


def _read(place: Path, encoder: Encoder, source: Source, max_unreadable: float) -> Features | None:
    """What is kept; None where there is nothing, or nothing that can be used."""
    try:
        found = read_features(place, encoder, source)
    except UserError:  # not there, damaged, or larger than the memory: as if there were none
        return None
    missing = np.setdiff1d(np.arange(len(source)), found.index.numpy()).tolist()
    if len(missing) > max_unreadable * len(source):  # encoding tells which, and why
        return None
    with suppress(OSError):
        os.utime(place)  # asked for just now: among the last to be removed
    before = "it could not be read when its features were first asked for"
    problems = tuple(Problem(index, printable(source.describe(index)), before) for index in missing)
    return replace(found, problems=problems, cached=True)


def _write(place: Path, features: Features, source: Source) -> None:
    with suppress(OSError, UserError):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # features tell of the user's photos
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
    """Keep what was asked for last, as much as the bound allows; what a killed process left goes the same way."""
    found = [(path, path.stat()) for path in folder.glob("*.npz")]
    total = 0
    for path, state in sorted(found, key=lambda each: each[1].st_mtime_ns, reverse=True):
        total += state.st_size
        if total > MOST_BYTES:
            path.unlink(missing_ok=True)
