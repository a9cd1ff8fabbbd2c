"""Files that are whole or absent and say which version wrote them, and their names as text."""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from cacr.config import FORMAT
from cacr.errors import UserError

_NO_UNICODE = re.compile("[\ud800-\udfff]")  # how Python holds the bytes of a name that is not UTF-8
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def check_format(found: object, where: Path) -> None:
    """Refuse files that another version of this software wrote, in a format that this one does not have."""
    if type(found) is not int:
        raise UserError(f"{where} has no format version: it is damaged, or not a file of cacr")
    if found > FORMAT:
        raise UserError(
            f"{where} has format {found}, this version of cacr reads up to {FORMAT}: upgrade cacr"
        )
    if found < FORMAT:
        raise UserError(
            f"{where} has format {found}, of a version of cacr before this one, which reads format {FORMAT} only: "
            "use that version, or train again"
        )


def write_atomically(path: Path, content: bytes) -> None:
    """Write a whole file or nothing: to a temporary name first, then renamed."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):  # the write's own error is the one to tell
            if temporary.is_dir():
                shutil.rmtree(temporary)
            temporary.unlink(missing_ok=True)
        raise UserError(f"cannot write {path}: {error.strerror}") from None


@contextlib.contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """A temporary name beside a file or folder, for writers that want a path: it is renamed when the block ends well.

    Raises:
        UserError: the file cannot be written.
    """
    # However long the name is, this one is short; the suffix stays because writers go by it.
    temporary = path.with_name(f".cacr-{os.getpid()}.tmp{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):  # the write's own error is the one to tell
            temporary.unlink(missing_ok=True)


def require_writable(folder: Path) -> None:
    """Refuse a folder that cannot be written, or made, before hours of work end there; nothing is left behind.

    Raises:
        UserError: says why.
    """
    try:
        nearest = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        raise UserError(f"cannot write into {folder}: {error.strerror or error}") from None


def require_new_file(path: Path, suffixes: Sequence[str]) -> None:
    """Refuse a file that exists or cannot be written, before anything is computed for it.

    Args:
        path: The file.
        suffixes: What its name may end in.

    Raises:
        UserError: says why.
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
    """A file's name as valid Unicode: bytes that are not UTF-8 as ``\\xff``."""
    return _NO_UNICODE.sub(_escape, name)


def printable(text: str) -> str:
    """Text on one line, safe to print: as :func:`storable`, and control characters as ``\\n``, ``\\x1b``."""
    return _CONTROL.sub(_escape, storable(text))


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # byte 0x80 to 0xff
        return f"\\x{code - 0xDC00:02x}"
    return found[0].encode("unicode_escape").decode()
