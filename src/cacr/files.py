"""Write files completely or not at all, check their format version, and make their names printable."""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from cacr.config import FORMAT
from cacr.errors import UserError

_NO_UNICODE = re.compile("[\ud800-\udfff]")  # how Python stores bytes of a file name that are not UTF-8
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def check_format(found: object, where: Path) -> None:
    """Refuse a file in a format of another version of cacr."""
    if type(found) is not int:
        raise UserError(f"{where} has no format version: it is damaged, or not a cacr file")
    if found > FORMAT:
        raise UserError(
            f"{where} has format {found}, this version of cacr reads up to {FORMAT}: upgrade cacr"
        )
    if found < FORMAT:
        raise UserError(
            f"{where} has format {found}, written by an older version of cacr; this version reads only format "
            f"{FORMAT}: use the older version, or train again"
        )


def write_atomically(path: Path, content: bytes) -> None:
    """Write a complete file or nothing: write to a temporary name, then rename."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):  # report the error of the write, not this one
            if temporary.is_dir():
                shutil.rmtree(temporary)
            temporary.unlink(missing_ok=True)
        raise UserError(f"cannot write {path}: {error.strerror}") from None


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to a file or folder; rename it on success.

    Raises:
        UserError: the file cannot be written.
    """
    # This name is short even if the file's name is long. It keeps the suffix, because writers choose the format by it.
    temporary = path.with_name(f".cacr-{os.getpid()}.tmp{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):  # report the error of the write, not this one
            temporary.unlink(missing_ok=True)


def require_writable(folder: Path) -> None:
    """Refuse a folder that cannot be created or written to, before hours of work; leave nothing behind.

    Raises:
        UserError: with the reason.
    """
    try:
        nearest = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        raise UserError(f"cannot write into {folder}: {error.strerror or error}") from None


def require_new_file(path: Path, suffixes: Sequence[str]) -> None:
    """Refuse a file that exists or cannot be written, before anything is computed.

    Args:
        path: The file.
        suffixes: Allowed endings of its name.

    Raises:
        UserError: with the reason.
    """
    if path.suffix.lower() not in suffixes:
        raise UserError(f"{path} must end in {' or '.join(suffixes)}")
    try:
        exists = path.exists()
    except OSError as error:  # such as a name that is too long
        raise UserError(f"cannot write {path}: {error.strerror}") from None
    if exists:
        raise UserError(f"{path} exists already: remove it, or choose another name")
    require_writable(path.parent)


def storable(name: str) -> str:
    """A file name as valid Unicode: bytes that are not UTF-8 become ``\\xff``."""
    return _NO_UNICODE.sub(_escape, name)


def printable(text: str) -> str:
    """Text on one line, safe to print: like :func:`storable`, with control characters as ``\\n``, ``\\x1b``."""
    return _CONTROL.sub(_escape, storable(text))


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # byte 0x80 to 0xff
        return f"\\x{code - 0xDC00:02x}"
    return found[0].encode("unicode_escape").decode()
