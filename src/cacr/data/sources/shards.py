"""Tar shards in the layout of webdataset, for data larger than a disk."""

import glob
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cacr.data.paths import inside
from cacr.data.registry import SOURCES, Request
from cacr.data.scan import IMAGE_SUFFIXES
from cacr.data.stream import Raw, Shard, StreamSource
from cacr.errors import MissingExtraError, UserError

# webdataset hands addresses to a shell inside quotes, so nothing may pass that could end them.
_DIGITS = 18  # of a class's number: what 64 bits hold
_ADDRESS = re.compile(r"(https?|gs)://[\w./:%?=&~+@,-]+")


@SOURCES.register("wds")
def open_shards(request: Request) -> StreamSource:
    """wds:PATTERN of tar shards, as wds:train-{000..099}.tar, or wds:INDEX.json; jpg with cls or txt."""
    try:
        import webdataset  # noqa: F401
    except ImportError:
        raise MissingExtraError(f"the data {request.spec!r}", "shards") from None
    if request.part == "test":
        raise request.missing_part("shards are all one part; name the test shards' own pattern")
    if request.argument.endswith(".json"):
        return TarSource(request.spec, _read_index(request))
    counted = [_count(path) for path in _local_shards(request)]
    labels = [label for _, found in counted for label in found]
    shards = [shard for shard, _ in counted]
    if not sum(shard.count for shard in shards):
        raise UserError(f"the {len(shards)} shards of {request.spec} hold no images")
    known = len(labels) == sum(shard.count for shard in shards)
    notes = []
    if labels and not known:
        notes.append(f"only {len(labels):,} images of {request.spec} have a class: used without labels")
    return TarSource(request.spec, shards, labels=np.array(labels) if known else None, notes=notes)


class TarSource(StreamSource):
    """Tar shards: an image, and a ``cls`` or ``txt`` file of the same name."""

    def read_shard(self, shard: Shard) -> Iterator[Raw]:
        """The images of a shard from front to back."""
        from webdataset.gopen import gopen
        from webdataset.tariterators import group_by_keys, tar_file_iterator

        try:
            # Only an address is webdataset's to open: it would run a file's name of the form pipe:COMMAND.
            with gopen(shard.url) if "://" in shard.url else Path(shard.url).open("rb") as stream:
                files = ({**file, "__url__": shard.url} for file in tar_file_iterator(stream, skip_meta=None))
                for sample in group_by_keys(files):
                    suffix = _image_suffix(sample)
                    if suffix is not None:
                        yield _raw(sample, sample[suffix], f"{shard.url}, {sample['__key__']}.{suffix}")
        except (OSError, tarfile.TarError, ValueError, EOFError) as error:
            raise UserError(f"{shard.url} cannot be read to its end: {error}") from error


def _raw(sample: dict[str, Any], content: bytes, where: str) -> Raw:
    label = _label(sample["cls"], where) if "cls" in sample else None
    captions = (sample["txt"].decode("utf-8", "replace").strip(),) if "txt" in sample else None
    return Raw(0, where, content, label, captions)


def _label(content: bytes, where: str) -> int:
    text = content.strip()
    if not text.isdigit() or len(text) > _DIGITS:
        raise UserError(
            f"{where}: its class is {text[:40].decode('ascii', 'replace')!r}, not a number from 0 on"
        )
    return int(text)


def _image_suffix(sample: dict[str, Any]) -> str | None:
    return next((suffix for suffix in sample if f".{suffix}" in IMAGE_SUFFIXES), None)


def _count(path: Path) -> tuple[Shard, list[int]]:
    """A shard with the number of its images, and their classes if they have any; only headers are read."""
    from webdataset.tariterators import group_by_keys

    try:
        with tarfile.open(path) as archive:
            # The same grouping that reading uses, with the place of the content instead of the content.
            members = (
                {"fname": file.name, "data": file, "__url__": str(path)} for file in archive if file.isreg()
            )
            samples = [sample for sample in group_by_keys(members) if _image_suffix(sample) is not None]
            labels = []
            for sample in samples:
                if "cls" in sample:
                    stored = archive.extractfile(sample["cls"])
                    assert stored is not None  # it is a regular file
                    labels.append(_label(stored.read(), f"{path}, {sample['__key__']}.cls"))
    except (OSError, tarfile.TarError, ValueError, EOFError) as error:
        raise UserError(f"{path} cannot be read as a tar archive: {error}") from error
    return Shard(str(path), len(samples)), labels


def _local_shards(request: Request) -> list[Path]:
    from braceexpand import braceexpand

    pattern = str(request.path())
    if "://" in request.argument or pattern.startswith("pipe:"):
        raise UserError(
            f"{request.spec}: shards on a server need an index that says how many images each holds; "
            "write wds:INDEX.json (webdataset's widsindex makes one)"
        )
    found = (sorted(glob.glob(name)) or [name] for name in braceexpand(pattern))  # noqa: PTH207  (may be absolute)
    paths = [Path(name) for names in found for name in names]
    missing = [str(path) for path in paths if not path.is_file()]
    if missing:
        raise UserError(f"{len(missing)} of {len(paths)} shards of {request.spec} are missing: {missing[0]}")
    return paths


def _read_index(request: Request) -> list[Shard]:
    """The shards in an index of webdataset: ``{"shardlist": [{"url": "a.tar", "nsamples": 1000}, ...]}``."""
    file = request.file()
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))["shardlist"]
        shards = [Shard(str(entry["url"]), int(entry["nsamples"])) for entry in entries]
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise UserError(f"{file} is not an index of shards with url and nsamples: {error!r}") from error
    if not shards or any(shard.count < 0 for shard in shards) or not sum(shard.count for shard in shards):
        raise UserError(f"{file} names no shards with images")
    return [Shard(_checked_address(request, file, shard.url), shard.count) for shard in shards]


def _checked_address(request: Request, file: Path, url: str) -> str:
    if "://" not in url:
        path = file.parent / inside(url, str(file))
        if not path.is_file():
            raise UserError(f"{file} names {path}, which does not exist")
        return str(path)
    if not _ADDRESS.fullmatch(url):
        raise UserError(f"{file}: the address {url[:200]!r} is refused; use plain http, https or gs")
    if not request.download:
        raise UserError(f"{file} names shards on a server ({url}); allow the network with --download")
    return url
