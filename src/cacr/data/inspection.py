"""Inspect a source: what it contains, and what looks wrong."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cacr.data.annotated import AnnotatedSource
from cacr.data.errors import Problem
from cacr.data.files import FileSource
from cacr.data.levels import SUFFIXES
from cacr.data.pixels import DUPLICATE, GLANCE, linked, shrunk
from cacr.data.scan import IMAGE_SUFFIXES, list_images
from cacr.data.source import Indices, Source
from cacr.data.stream import StreamSource
from cacr.data.unread import unread_files
from cacr.decode import open_image, read_rgb, require_regular
from cacr.errors import UnreadableImageError
from cacr.files import printable
from cacr.reading.files import kind_of

_THREADS = 8
_TINY, _HUGE, _LONG = 16, 20_000_000, 4.0
_STEEP = 100
_ANNOTATIONS = (".xml", ".json", ".txt")  # files with boxes: they are read, but not as images
_AT_ONCE = 1024  # images per block in the comparison with all others

FEW_IMAGES, TOO_FEW = 1000, 500
"""With fewer images there is a warning. 555 photos are the fewest from which learning without labels was measured to
help (``docs/results.md``)."""


@dataclass(frozen=True)
class Inspection:
    """The result of an inspection.

    Attributes:
        name: name of the source.
        count: number of all images.
        examined: number of images that were checked; everything below except ``classes`` is about these.
        sizes: (width, height) of the smallest, the median and the largest image by area.
        formats: number of files per format.
        classes: number of images per class, of all images; None without labels.
        objects: number of annotated objects per class, of all images; None without annotations.
        skipped: annotations that are left out: where, and why.
        unreadable: images that cannot be decoded.
        duplicates: groups of images with the same content.
        near: groups of images with nearly the same pixels, but different content.
        unread: kinds of files in the folder that are not read, with their number and the reason.
        warnings: what looks wrong, in sentences.
    """

    name: str
    count: int
    examined: int
    sizes: tuple[tuple[int, int], ...]
    formats: dict[str, int]
    classes: dict[str, int] | None
    unreadable: tuple[Problem, ...]
    duplicates: tuple[tuple[str, ...], ...]
    near: tuple[tuple[str, ...], ...]
    unread: tuple[str, ...]
    warnings: tuple[str, ...]
    objects: dict[str, int] | None = None
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Look:
    index: int
    digest: bytes
    size: tuple[int, int]
    format: str
    blank: bool
    sixteen: bool
    pixels: NDArray[np.float32]


def inspect_source(source: Source, *, at_most: int = 5000) -> Inspection:
    """Check up to ``at_most`` images, evenly distributed (of a stream: the first ones)."""
    looks: list[_Look] = []
    problems: list[Problem] = []
    for result in _examine(source, at_most):
        if isinstance(result, Problem):
            problems.append(result)
        else:
            looks.append(result)
    by_area = sorted((look.size for look in looks), key=lambda size: size[0] * size[1])
    groups = defaultdict(list)
    for look in looks:
        groups[look.digest].append(printable(source.describe(look.index)))
    duplicates = tuple(tuple(group) for group in groups.values() if len(group) > 1)
    near = tuple(
        tuple(printable(source.describe(looks[place].index)) for place in group) for group in _near(looks)
    )
    classes = source.class_counts()
    return Inspection(
        name=source.name,
        count=len(source),
        examined=len(looks) + len(problems),
        sizes=tuple(by_area[place] for place in (0, len(by_area) // 2, -1)) if by_area else (),
        formats=dict(Counter(look.format for look in looks).most_common()),
        classes=classes,
        unreadable=tuple(problems),
        duplicates=duplicates,
        near=near,
        unread=_unread(source),
        warnings=(*_image_warnings(looks, problems, duplicates, near), *_set_warnings(len(source), classes)),
        objects=source.object_counts() if isinstance(source, AnnotatedSource) else None,
        skipped=source.skipped if isinstance(source, AnnotatedSource) else (),
    )


def _examine(source: Source, at_most: int) -> Iterator[_Look | Problem]:
    count = min(len(source), at_most)
    if isinstance(source, StreamSource):
        for raw in source.stream(range(len(source.shards)), 0, count):
            yield _look_at_content(raw.index, raw.where, raw.content)
        return
    chosen: Indices = np.unique(np.linspace(0, len(source) - 1, count).astype(np.int64))
    with ThreadPoolExecutor(_THREADS) as threads:
        yield from threads.map(partial(_look, source), chosen.tolist())


def _look(source: Source, index: int) -> _Look | Problem:
    if isinstance(source, FileSource) and not source.deep:
        path, where = source.paths[index], printable(source.describe(index))
        try:
            require_regular(path, where)
            return _look_at_content(index, where, path.read_bytes())
        except UnreadableImageError as error:
            return Problem(index, error.where, error.reason)
        except OSError as error:
            return Problem(index, where, error.strerror or str(error))
    try:
        image = source.read(index)
    except UnreadableImageError as error:
        return Problem(index, error.where, error.reason)
    return _Look(index, _digest(image.tobytes()), image.size, "array", _is_blank(image), False, _small(image))


def _look_at_content(index: int, where: str, content: bytes) -> _Look | Problem:
    try:
        with open_image(BytesIO(content), where) as image:
            size, kind = image.size, image.format or "unknown"
            sixteen = image.mode.startswith("I;16")
        glance = read_rgb(BytesIO(content), where, GLANCE)
    except UnreadableImageError as error:
        return Problem(index, error.where, error.reason)
    return _Look(index, _digest(content), size, kind, _is_blank(glance), sixteen, _small(glance))


def _small(image: Image.Image) -> NDArray[np.float32]:
    return shrunk(image).astype(np.float32)


def _near(looks: list[_Look]) -> list[list[int]]:
    """Groups of indices in ``looks`` whose pixels correlate like those of copies; exact copies count too.

    Blank images are left out, because all images of one colour are equal.
    """
    first = {look.digest: place for place, look in reversed(list(enumerate(looks)))}
    places = sorted(place for place in first.values() if not looks[place].blank)
    if len(places) < 2:
        return []
    x = np.stack([looks[place].pixels for place in places])
    x -= x.mean(axis=1, keepdims=True)
    x /= np.linalg.norm(x, axis=1, keepdims=True).clip(min=1e-6)
    links = []
    for start in range(0, len(x), _AT_ONCE):
        rows, columns = np.nonzero(x[start : start + _AT_ONCE] @ x.T >= DUPLICATE)
        links.append(np.stack([rows + start, columns], axis=1))
    members = defaultdict(list)
    for place, number in zip(places, linked(np.concatenate(links), len(x)).tolist(), strict=True):
        members[number].append(place)
    return [group for group in members.values() if len(group) > 1]


def _unread(source: Source) -> tuple[str, ...]:
    if not isinstance(source, FileSource) or kind_of(source.root) != "folder":
        return ()
    others = list_images(source.root, suffixes=SUFFIXES if source.deep else IMAGE_SUFFIXES).others
    if isinstance(source, AnnotatedSource):
        others = Counter({kind: count for kind, count in others.items() if kind not in _ANNOTATIONS})
    return tuple(unread_files(others))


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()


def _is_blank(image: Image.Image) -> bool:
    return all(low == high for low, high in np.array(image.getextrema()).reshape(-1, 2))


def _image_warnings(
    looks: list[_Look],
    problems: list[Problem],
    duplicates: tuple[tuple[str, ...], ...],
    near: tuple[tuple[str, ...], ...],
) -> Iterator[str]:
    examined = len(looks) + len(problems)

    def of(count: int, what: str) -> Iterator[str]:
        if count:
            yield f"{count:,} of {examined:,} images {what}"

    yield from of(len(problems), "cannot be read")
    yield from of(sum(len(group) - 1 for group in duplicates), "are exact copies of another")
    yield from of(sum(len(group) - 1 for group in near), "are near-duplicates of another")
    yield from of(sum(look.blank for look in looks), "are blank: one colour only")
    deep = sum(look.sixteen for look in looks)
    yield from of(deep, "have 16 bits, but only 8 are used: write deep:FOLDER to use all 16")
    yield from of(sum(min(look.size) < _TINY for look in looks), f"have a side shorter than {_TINY} pixels")
    long = sum(max(look.size) > _LONG * min(look.size) for look in looks)
    yield from of(long, f"are more than {_LONG:g} times as long as wide: crops show only small parts")
    large = sum(look.size[0] * look.size[1] > _HUGE for look in looks)
    yield from of(large, "have more than 20 million pixels, which makes decoding slow: resize them once")


def _set_warnings(count: int, classes: dict[str, int] | None) -> Iterator[str]:
    if count < FEW_IMAGES:
        yield (
            f"{count:,} images are {'too few' if count < TOO_FEW else 'few'} to train an encoder from scratch: start "
            "from pretrained weights, or use pretrained weights without training"
        )
    if classes:
        empty = [name for name, number in classes.items() if not number]
        least, most = min(number for number in classes.values() if number), max(classes.values())
        if empty:
            yield f"{len(empty)} of {len(classes)} classes are empty, for example {empty[0]}"
        if most > _STEEP * least:
            yield f"the classes are unbalanced: {least:,} to {most:,} images"
