"""Tar shards in the layout of webdataset, for very large data."""

import glob
import math
import re
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, TypeAdapter

from cacr.data.paths import inside
from cacr.data.registry import SOURCES, Request
from cacr.data.scan import IMAGE_SUFFIXES
from cacr.data.stream import Raw, Shard, StreamSource
from cacr.errors import MissingExtraError, UserError
from cacr.reading.documents import parse_json
from cacr.reading.files import kind_of, open_file, read_text
from cacr.reading.foreign import foreign

_DIGITS = 18  # of a class number: fits into 64 bits
_LARGEST = 2**30  # bytes of one file in a shard; a damaged or sparse one can claim any size
_MOST_SHARDS = 1_000_000
_MOST_IMAGES = 10_000_000  # in one shard
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(\.\.-?\d+)?")
_LETTERS = re.compile(r"[A-Za-z]\.\.[A-Za-z](\.\.-?\d+)?")
# webdataset passes addresses to a shell inside quotes, so characters that could end the quotes are refused.
_ADDRESS = re.compile(r"(https?|gs)://[\w./:%?=&~+@,-]+")


@SOURCES.register("wds")
def open_shards(request: Request) -> StreamSource:
    """wds:PATTERN of tar shards, such as wds:train-{000..099}.tar, or wds:INDEX.json; jpg with cls or txt."""
    try:
        import webdataset  # noqa: F401
    except ImportError:
        raise MissingExtraError(f"the data {request.spec!r}", "shards") from None
    if request.part == "test":
        raise request.missing_part("shards have only one part; give the pattern of the test shards")
    if request.argument.endswith(".json"):
        return TarSource(request.spec, _read_index(request))
    counted = [_count(path) for path in _local_shards(request)]
    labels = [label for _, found in counted for label in found]
    shards = [shard for shard, _ in counted]
    if not sum(shard.count for shard in shards):
        raise UserError(f"the {len(shards)} shards of {request.spec} have no images")
    known = len(labels) == sum(shard.count for shard in shards)
    notes = []
    if labels and not known:
        notes.append(f"only {len(labels):,} images of {request.spec} have a class: used without labels")
    return TarSource(request.spec, shards, labels=np.array(labels) if known else None, notes=notes)


class TarSource(StreamSource):
    """Tar shards: an image, and a ``cls`` or ``txt`` file of the same name."""

    def read_shard(self, shard: Shard) -> Iterator[Raw]:
        """The images of a shard in order."""
        from webdataset.gopen import gopen

        # webdataset opens only addresses: it would run a file name of the form pipe:COMMAND.
        with foreign(f"{shard.url} cannot be opened"):
            stream = gopen(shard.url) if "://" in shard.url else open_file(Path(shard.url))
        with stream:
            for sample in _samples(_contents(stream, shard.url), shard.url):
                if (suffix := _image_suffix(sample)) is not None:
                    yield _raw(sample, sample[suffix], f"{shard.url}, {sample['__key__']}.{suffix}")


def _contents(stream: Any, where: str) -> Iterator[dict[str, Any]]:
    """Name and content of each file of an archive, in order."""
    archive = tarfile.open(fileobj=stream, mode="r|*")  # noqa: SIM115  (the caller closes the stream)
    for member in archive:
        if member.isreg():
            _require_size(member, where)
            file = archive.extractfile(member)
            yield {"fname": member.name, "data": file.read() if file else b"", "__url__": where}
        archive.members = []  # type: ignore[attr-defined]  # otherwise every header stays in memory


def _samples(files: Iterable[dict[str, Any]], where: str) -> Iterator[dict[str, Any]]:
    """Combine files of the same name, as webdataset does."""
    from webdataset.tariterators import group_by_keys

    samples = iter(group_by_keys(files))
    while True:
        with foreign(f"{where} cannot be read completely"):
            sample = next(samples, None)
        if sample is None:
            return
        yield sample


def _require_size(member: tarfile.TarInfo, where: str) -> None:
    if not 0 <= member.size <= _LARGEST:
        raise UserError(
            f"{where}, {member.name[:200]}: its header says {member.size:,} bytes; the shard is damaged"
        )


def _raw(sample: dict[str, Any], content: bytes, where: str) -> Raw:
    label = _label(sample["cls"], where) if "cls" in sample else None
    captions = (sample["txt"].decode("utf-8", "replace").strip(),) if "txt" in sample else None
    return Raw(0, where, content, label, captions)


def _label(content: bytes, where: str) -> int:
    text = content.strip()
    if not text.isdigit() or len(text) > _DIGITS:
        raise UserError(
            f"{where}: its class is {text[:40].decode('ascii', 'replace')!r}, not a number from 0"
        )
    return int(text)


def _image_suffix(sample: dict[str, Any]) -> str | None:
    return next((suffix for suffix in sample if f".{suffix}" in IMAGE_SUFFIXES), None)


def _count(path: Path) -> tuple[Shard, list[int]]:
    """A shard with the number of its images, and their classes if they have any; only headers are read."""
    count, labels = 0, []
    with open_file(path) as file:
        with foreign(f"{path} cannot be read as a tar archive"):
            archive = tarfile.open(fileobj=file)  # noqa: SIM115  (the file is closed)
        # The same grouping as for reading, with the position of the content instead of the content.
        for sample in _samples(_places(archive, str(path)), str(path)):
            if _image_suffix(sample) is None:
                continue
            count += 1
            if "cls" in sample:
                where = f"{path}, {sample['__key__']}.cls"
                with foreign(f"{where} cannot be read"):
                    stored = archive.extractfile(sample["cls"])
                    content = b"" if stored is None else stored.read(_DIGITS + 20)
                labels.append(_label(content, where))
    return Shard(str(path), count), labels


def _places(archive: tarfile.TarFile, where: str) -> Iterator[dict[str, Any]]:
    for member in archive:
        if member.isreg():
            _require_size(member, where)
            yield {"fname": member.name, "data": member, "__url__": where}


def _local_shards(request: Request) -> list[Path]:
    from braceexpand import braceexpand

    pattern = str(request.path())
    if "://" in request.argument or pattern.startswith("pipe:"):
        raise UserError(
            f"{request.spec}: shards on a server need an index with their numbers of images; "
            "write wds:INDEX.json (webdataset's widsindex makes one)"
        )
    if _expansions(pattern) > _MOST_SHARDS:
        raise UserError(f"{request.spec[:200]} means more than {_MOST_SHARDS:,} shards")
    with foreign(f"{request.spec[:200]} is not a pattern of files"):
        names = list(braceexpand(pattern))
    found = (sorted(glob.glob(name)) or [name] for name in names)  # noqa: PTH207  (may be absolute)
    paths = [Path(name) for names in found for name in names]
    missing = [str(path) for path in paths if kind_of(path) != "file"]
    if missing:
        raise UserError(f"{len(missing)} of {len(paths)} shards of {request.spec} are missing: {missing[0]}")
    return paths


def _expansions(pattern: str) -> float:
    """Upper limit of the number of names of a pattern; computed, because the library would create all of them."""
    alternatives, names = (
        [0.0],
        [1.0],
    )  # for each open brace: names before the last comma, and after it
    begins = [0]
    escaped = False
    for place, sign in enumerate(pattern):
        if escaped or sign == "\\":
            escaped = not escaped
        elif sign == "{":
            alternatives.append(0.0)
            names.append(1.0)
            begins.append(place + 1)
        elif sign == "," and len(names) > 1:
            alternatives[-1] += names[-1]
            names[-1] = 1.0
        elif sign == "}" and len(names) > 1:
            inner = alternatives.pop() + names.pop()
            names[-1] *= max(inner, _length(pattern[begins.pop() : place]))
    return math.prod(names)  # more than one if braces are not closed


def _length(text: str) -> float:
    """Length of a range such as ``000..099`` or ``a..f``; 0 for other text."""
    found = _RANGE.fullmatch(text)
    if found is None:
        return 52.0 if _LETTERS.fullmatch(text) else 0.0
    if max(len(found[1]), len(found[2])) > _DIGITS:
        return math.inf
    return abs(int(found[2]) - int(found[1])) + 1


@dataclass(frozen=True)
class _Entry:
    url: str
    nsamples: Annotated[int, Field(ge=0, le=_MOST_IMAGES)]


@dataclass(frozen=True)
class _Index:
    shardlist: Annotated[list[_Entry], Field(max_length=_MOST_SHARDS)]


_INDEX = TypeAdapter(_Index)


def _read_index(request: Request) -> list[Shard]:
    """The shards in an index of webdataset: ``{"shardlist": [{"url": "a.tar", "nsamples": 1000}, ...]}``."""
    file = request.file()
    entries = parse_json(
        read_text(file), _INDEX, f"{file} is not an index of shards with url and nsamples"
    ).shardlist
    if not any(entry.nsamples for entry in entries):
        raise UserError(f"{file} has no shards with images")
    return [Shard(_checked_address(request, file, entry.url), entry.nsamples) for entry in entries]


def _checked_address(request: Request, file: Path, url: str) -> str:
    if "://" not in url:
        path = file.parent / inside(url, str(file))
        if kind_of(path) != "file":
            raise UserError(f"{file} names {path}, which does not exist")
        return str(path)
    if not _ADDRESS.fullmatch(url):
        raise UserError(f"{file}: the address {url[:200]!r} is refused: use plain http, https or gs")
    if not request.download:
        raise UserError(f"{file} has shards on a server ({url}): allow downloads with --download")
    return url
