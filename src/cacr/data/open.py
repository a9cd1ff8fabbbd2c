"""Open a source by its name or path."""

from pathlib import Path

import cacr.data.sources  # noqa: F401  (each of its files registers itself)
from cacr.data.named_images import choose_images
from cacr.data.registry import SOURCES, Part, Request
from cacr.data.source import Source
from cacr.errors import UserError
from cacr.reading.files import kind_of, user_path
from cacr.registry import nearest

_BY_SUFFIX = {".npz": "npz", ".npy": "npy", ".jsonl": "pairs"}


def open_source(
    spec: str,
    *,
    part: Part = "pretrain",
    root: Path = Path("data"),
    download: bool = False,
    images: str | None = None,
) -> Source:
    """Open data by its name or path.

    A registered name (``cifar10``) or ``name:argument`` (``imagenet:/data/imagenet``) has priority; write
    ``./cifar10`` for a folder with such a name. Otherwise it is a path: a folder of images, or an ``.npz``, ``.npy``
    or ``.jsonl`` file.

    Args:
        spec: the name or path.
        part: ``pretrain`` (all images for training without labels), ``train`` or ``test``.
        root: folder of named data sets.
        download: allow downloads of data sets that are not in ``root``.
        images: a file that lists the images to use, or ``except:FILE``; see :func:`choose_images`.

    Raises:
        MissingPartError: the data does not have this part.
        UserError: the data does not exist, or has no images.
    """
    return choose_images(_open(spec, part, root, download), images)


def _open(spec: str, part: Part, root: Path, download: bool) -> Source:
    name, _, argument = spec.partition(":")
    if name in SOURCES:
        return SOURCES[name](Request(spec, argument, part, root, download))
    path = user_path(spec)
    kind = _BY_SUFFIX.get(path.suffix.lower(), "folder")
    if kind == "folder" and kind_of(path) is None and _looks_like_a_name(spec):
        raise UserError(f"there is no folder and no source called {name!r}; {nearest(name, SOURCES.names())}")
    return SOURCES[kind](Request(spec, spec, part, root, download))


def _looks_like_a_name(spec: str) -> bool:
    name = spec.partition(":")[0]
    return len(name) > 1 and not any(sign in name for sign in "/\\.~")  # one letter may be a Windows drive
