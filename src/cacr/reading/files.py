"""Names that a user typed, and the bytes and text of regular files."""

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from cacr.errors import UserError

Kind = Literal["file", "folder", "special"]

MOST_TEXT = 64 * 2**20
"""Bytes of a text file that are read; ours, and those we read, are far smaller."""

MOST_LINE = 2**20
"""Bytes of one line."""


def user_path(text: str) -> Path:
    """A path as the user wrote it, with ``~`` for a home folder; one that is kept with the results.

    Raises:
        UserError: the text cannot be a path, or could not be written down.
    """
    path = any_path(text)
    if any("\ud800" <= sign <= "\udfff" for sign in text):
        raise UserError(
            f"{text}: the name is not UTF-8, and could not be written down with the results; rename it"
        )
    return path


def any_path(text: str) -> Path:
    """The same of a file or folder whose name may be any bytes.

    Raises:
        UserError: the text cannot be a path.
    """
    try:
        path = Path(text).expanduser()
    except RuntimeError:
        raise UserError(
            f"{text}: this machine has no such user; write ./{text} for a file of this name"
        ) from None
    if "\0" in text:
        raise UserError(f"{text!r} cannot be a path: it has a zero byte")
    return path


def kind_of(path: Path) -> Kind | None:
    """What lies at a path, links followed; None where there is nothing.

    Raises:
        UserError: the system does not say, for example of a name that is too long.
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"cannot look at {_short(path)}: {_why(error)}") from None
    return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "special"


def require_file(path: Path) -> None:
    """Refuse what is no regular file; a pipe or a device would be waited for.

    Raises:
        UserError: says what it is instead.
    """
    kind = kind_of(path)
    if kind is None:
        raise UserError(f"there is no file {path}")
    if kind != "file":
        what = "a folder" if kind == "folder" else "a pipe, socket or device"
        raise UserError(f"{path} is {what}, and a file is needed")


def open_file(path: Path) -> BinaryIO:
    """Open a regular file for reading.

    Raises:
        UserError: it is none, or may not be read.
    """
    require_file(path)
    try:
        return path.open("rb")
    except OSError as error:
        raise UserError(f"cannot read {path}: {_why(error)}") from None


def read_bytes(path: Path, at_most: int = MOST_TEXT) -> bytes:
    """The content of a regular file.

    Args:
        path: the file.
        at_most: a larger one is refused.
    """
    with open_file(path) as file:
        try:
            content = file.read(at_most + 1)
        except OSError as error:
            raise UserError(f"cannot read {path}: {_why(error)}") from None
    if len(content) > at_most:
        raise UserError(
            f"{path} has more than {at_most:,} bytes, far more than such a file needs: it is not read"
        )
    return content


def read_text(path: Path, at_most: int = MOST_TEXT) -> str:
    """The content of a text file in UTF-8."""
    try:
        return read_bytes(path, at_most).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not text in UTF-8: is it the right file?") from None


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file in UTF-8 that are not blank, with their numbers from 1 on."""
    with open_file(path) as file:
        number = 0
        while line := file.readline(MOST_LINE + 1):
            number += 1
            if len(line) > MOST_LINE:
                raise UserError(
                    f"{path}, line {number}: longer than {MOST_LINE:,} bytes; is it the right file?"
                )
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            except UnicodeDecodeError:
                raise UserError(f"{path}, line {number}: not text in UTF-8; is it the right file?") from None
            if text:
                yield number, text


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _short(path: Path) -> str:
    text = str(path)
    return text if len(text) <= 200 else f"{text[:200]} ..."
