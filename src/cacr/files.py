"""Files that are whole or absent, and that say which version wrote them."""

import os
from pathlib import Path

from cacr.config import FORMAT
from cacr.errors import UserError


def check_format(found: object, where: Path) -> None:
    """Refuse files that a newer version of this software wrote."""
    if not isinstance(found, int):
        raise UserError(f"{where} has no format version: it is damaged, or not a file of cacr")
    if found > FORMAT:
        raise UserError(
            f"{where} has format {found}, this version of cacr reads up to {FORMAT}: upgrade cacr"
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
        temporary.unlink(missing_ok=True)
        raise UserError(f"cannot write {path}: {error.strerror}") from None
