"""Find the image files in a folder."""

import errno
import os
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cacr.data.unread import HIDDEN, SPECIAL, WITHOUT_SUFFIX
from cacr.decode import has_image_content
from cacr.errors import UserError
from cacr.shell import shell_words

IMAGE_SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".apng", ".webp", ".avif", ".jp2", ".gif", ".bmp", ".dib"}
    | {".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm"}
)
_IGNORED = {"__MACOSX", "@eaDir", "lost+found"}


@dataclass
class Listing:
    """The image files in a folder, and the number of other files by suffix."""

    folder: Path
    names: list[str] = field(default_factory=list)  # relative to the folder, sorted, with "/" on every system
    others: Counter[str] = field(default_factory=Counter)

    def top_folders(self) -> list[str]:
        """The direct sub-folders that contain images at any depth, sorted."""
        return sorted({name.split("/", 1)[0] for name in self.names if "/" in name})


def list_images(
    folder: Path, only: Collection[str] | None = None, suffixes: Collection[str] = IMAGE_SUFFIXES
) -> Listing:
    """All image files in a folder and its sub-folders, recognised by suffix, or without suffix by their first bytes.

    Hidden files and folders are left out.

    ``only`` limits the search to some direct sub-folders, ``suffixes`` to some suffixes.

    Links to folders are followed, but each real folder is read only once, so links to a parent are harmless.

    Raises:
        UserError: there is no image, or a folder cannot be read.
    """
    listing = Listing(folder)
    seen: set[tuple[int, int]] = set()
    pending = [""] if only is None else [f"{name}/" for name in only if (folder / name).is_dir()]
    while pending:
        prefix = pending.pop()
        here = folder / prefix
        try:
            status = here.stat()
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(here) as entries:
                for entry in entries:
                    if _is_hidden(entry.name):
                        listing.others[HIDDEN] += 1
                        continue
                    kind = _kind(entry)
                    if kind == "folder":
                        pending.append(f"{prefix}{entry.name}/")
                    elif kind == "special":
                        listing.others[SPECIAL] += 1
                    else:
                        suffix = os.path.splitext(entry.name)[1].lower()  # noqa: PTH122  (millions of names)
                        if suffix in suffixes or (not suffix and has_image_content(entry.path)):
                            listing.names.append(prefix + entry.name)
                        else:
                            listing.others[suffix or WITHOUT_SUFFIX] += 1
        except OSError as error:
            raise UserError(f"{here} cannot be read: {error.strerror or error}") from error
    if not listing.names:
        raise UserError(_no_images(listing, suffixes))
    listing.names.sort()
    return listing


def sub_folders(folder: Path) -> list[Path]:
    """The direct sub-folders, without hidden ones."""
    try:
        return sorted(entry for entry in folder.iterdir() if entry.is_dir() and not _is_hidden(entry.name))
    except OSError as error:
        raise UserError(f"{folder} cannot be read: {error.strerror or error}") from error


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name in _IGNORED


def _kind(entry: os.DirEntry[str]) -> Literal["folder", "file", "special"]:
    """The kind of an entry, after following links; pipes, sockets and devices are special, because reading may block.

    A broken or circular link counts as a file, so that it is reported as unreadable.
    """
    try:
        if entry.is_dir():
            return "folder"
        broken = entry.is_symlink() and not Path(entry.path).exists()
        return "file" if broken or entry.is_file() else "special"
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return "file"


def _no_images(listing: Listing, suffixes: Collection[str]) -> str:
    message = f"{listing.folder} has no images (looked for {' '.join(sorted(suffixes))}"
    found = ", ".join(f"{count:,} {suffix}" for suffix, count in listing.others.most_common(5))
    arrays = shell_words(f"deep:{listing.folder}")
    hint = f"; {arrays} reads the arrays" if ".npy" not in suffixes and listing.others[".npy"] else ""
    return f"{message}; found {found}){hint}" if found else f"{message}; it has no files at all)"
