"""Paths that a user typed, and the content of regular files."""

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from cacr.errors import UserError

Kind = Literal["file", "folder", "special"]

MOST_TEXT = 64 * 2**20
"""Largest text file that is read, in bytes; files of cacr are much smaller."""

MOST_LINE = 2**20
"""Longest line, in bytes."""


def user_path(text: str) -> Path:
    """A path as the user typed it, with ``~`` expanded; it is stored with the results.

    Raises:
        UserError: the text cannot be a path, or cannot be stored.
    """
    path = any_path(text)
    if any("\ud800" <= sign <= "\udfff" for sign in text):
        raise UserError(f"{text}: the name is not UTF-8 and cannot be stored with the results; rename it")
    return path


def any_path(text: str) -> Path:
    """Like :func:`user_path`, but the name of the file or folder may hold any bytes.

    Raises:
        UserError: the text cannot be a path.
    """
    try:
        path = Path(text).expanduser()
    except RuntimeError:
        raise UserError(
            f"{text}: this machine has no such user; write ./{text} for a file with this name"
        ) from None
    if "\0" in text:
        raise UserError(f"{text!r} cannot be a path: it contains a zero byte")
    return path


def kind_of(path: Path) -> Kind | None:
    """What is at a path, following links; None if there is nothing.

    Raises:
        UserError: the system reports an error, for example for a name that is too long.
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"cannot access {_short(path)}: {_why(error)}") from None
    return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "special"


def require_file(path: Path) -> None:
    """Refuse anything except a regular file, because reading a pipe or a device may block.

    Raises:
        UserError: says what it is instead.
    """
    kind = kind_of(path)
    if kind is None:
        raise UserError(f"there is no file {path}")
    if kind != "file":
        what = "a folder" if kind == "folder" else "a pipe, socket or device"
        raise UserError(f"{path} is {what}, not a file")


def open_file(path: Path) -> BinaryIO:
    """Open a regular file for reading.

    Raises:
        UserError: it is not a regular file, or cannot be read.
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
        at_most: largest size in bytes; a larger file is refused.
    """
    with open_file(path) as file:
        try:
            content = file.read(at_most + 1)
        except OSError as error:
            raise UserError(f"cannot read {path}: {_why(error)}") from None
    if len(content) > at_most:
        raise UserError(f"{path} has more than {at_most:,} bytes, too many for such a file: it is not read")
    return content


def read_text(path: Path, at_most: int = MOST_TEXT) -> str:
    """The content of a UTF-8 text file."""
    try:
        return read_bytes(path, at_most).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text: is it the right file?") from None


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 text file that are not blank, with their numbers from 1."""
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
                raise UserError(f"{path}, line {number}: not UTF-8 text; is it the right file?") from None
            if text:
                yield number, text


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _short(path: Path) -> str:
    text = str(path)
    return text if len(text) <= 200 else f"{text[:200]} ..."
