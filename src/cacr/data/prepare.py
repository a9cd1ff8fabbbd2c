"""Before training: leave out unreadable images, and load small data sets into memory."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import torch

from cacr.data.errors import Problem, too_many_unreadable
from cacr.data.files import FileSource
from cacr.data.source import ArraySource, Indices, Source
from cacr.decode import open_image, read_rgb, require_regular, unreadable
from cacr.errors import UnreadableImageError
from cacr.files import printable
from cacr.shell import shell_words

_THREADS, _AT_ONCE = 8, 4096
_SMALL_SIDE = 96
_SMALL_BYTES = 2**30
_TAIL = 4096
_ENDINGS = {"JPEG": b"\xff\xd9", "MPO": b"\xff\xd9", "PNG": b"IEND"}


class _Seen(NamedTuple):
    """Facts from the header of a readable image: (width, height), and whether it is 16-bit grey."""

    size: tuple[int, int]
    sixteen: bool


T = TypeVar("T")
Progress = Callable[[int, int], None]
"""Called with the number of files done and the total."""


@dataclass(frozen=True)
class Prepared:
    """A source without unreadable images, and the images that were left out."""

    source: Source
    problems: tuple[Problem, ...] = ()


def prepare(
    source: Source,
    *,
    max_unreadable: float = 0.1,
    check_at_most: int = 100_000,
    progress: Progress | None = None,
) -> Prepared:
    """Check the files of a source before they are used.

    The header and the end of every file are read. A JPEG or PNG without a proper end, and every file of another
    format, is decoded completely. At most ``check_at_most`` files are checked, evenly distributed; the loader
    replaces images that it cannot decode. Images that all have one size of at most 96 pixels and fit into 1 GB become
    an ``ArraySource``, which needs no worker processes. Other kinds of sources are returned unchanged.

    Args:
        source: the source.
        max_unreadable: largest accepted share of unreadable images.
        check_at_most: largest number of files that are checked.
        progress: called with the number of files done and the total.

    Raises:
        UserError: more than ``max_unreadable`` of the files are unreadable, or all of them.
    """
    if not isinstance(source, FileSource) or source.deep:
        return Prepared(source)
    checked = np.unique(np.linspace(0, len(source) - 1, min(len(source), check_at_most)).astype(np.int64))
    problems: list[Problem] = []
    seen: list[_Seen] = []
    for done, result in enumerate(_in_threads(partial(_check, source), checked), 1):
        if isinstance(result, Problem):
            problems.append(result)
        else:
            seen.append(result)
        if progress is not None:
            progress(done, len(checked))
    images: dict[int, torch.Tensor] = {}
    if len(checked) == len(source) and _is_small({each.size for each in seen}, len(source)):
        sound = np.setdiff1d(checked, [problem.index for problem in problems])
        for index, image in zip(sound.tolist(), _in_threads(partial(_decode, source), sound), strict=True):
            if isinstance(image, Problem):
                problems.append(image)
            else:
                images[index] = image
    if len(problems) > max_unreadable * len(checked) or len(problems) == len(source):
        raise too_many_unreadable(problems, len(checked), max_unreadable)
    problems.sort(key=lambda problem: problem.index)
    if problems:
        source = source.subset(np.setdiff1d(np.arange(len(source)), [problem.index for problem in problems]))
    if sixteen := sum(each.sixteen for each in seen):
        whole = shell_words(f"deep:{source.root}")
        source = source.with_notes(
            f"{sixteen:,} images have 16 bits, but only 8 are used; {whole} uses all 16"
        )
    if len({image.shape for image in images.values()}) == 1:  # EXIF may have rotated some of them
        return Prepared(_in_memory(source, list(images.values())), tuple(problems))
    return Prepared(source, tuple(problems))


def _in_threads(look: Callable[[int], T], indices: Indices) -> Iterator[T]:
    with ThreadPoolExecutor(_THREADS) as threads:
        for begin in range(0, len(indices), _AT_ONCE):
            yield from threads.map(look, indices[begin : begin + _AT_ONCE].tolist())


def _is_small(sizes: set[tuple[int, int]], count: int) -> bool:
    if len(sizes) != 1:
        return False
    ((width, height),) = sizes
    return max(width, height) <= _SMALL_SIDE and 3 * width * height * count <= _SMALL_BYTES


def _decode(source: FileSource, index: int) -> Problem | torch.Tensor:
    """(3, height, width), or the problem of the image."""
    try:
        return torch.from_numpy(np.array(source.read(index))).permute(2, 0, 1)
    except UnreadableImageError as error:
        return Problem(index, error.where, error.reason)


def _in_memory(source: FileSource, images: list[torch.Tensor]) -> ArraySource:
    return ArraySource(
        source.name,
        torch.stack(images),
        labels=source.labels,
        class_names=source.class_names,
        captions=source.captions,
        notes=source.notes,
    )


def _check(source: FileSource, index: int) -> Problem | _Seen:
    """Facts about a readable image, or its problem."""
    path, where = source.paths[index], printable(source.describe(index))
    try:
        return check_file(path, where)
    except UnreadableImageError as error:
        return Problem(index, error.where, error.reason)


def check_file(path: Path, where: str) -> _Seen:
    """Check an image by its header; an image that looks incomplete is decoded.

    Raises:
        UnreadableImageError: the image is damaged.
    """
    require_regular(path, where)
    try:
        with path.open("rb") as file:
            with open_image(file, where) as image:
                found = _Seen(image.size, image.mode.startswith("I;16"))
                ending = _ENDINGS.get(image.format or "")
            file.seek(-min(_TAIL, file.seek(0, 2)), 2)
            whole = ending is not None and ending in file.read()
    except OSError as error:
        raise unreadable(where, error) from error
    return found if whole else found._replace(size=read_rgb(path, where).size)
