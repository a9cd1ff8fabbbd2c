"""Checkpoints: written atomically, verified by a checksum; the last two are kept.

A file name such as ``step-00001234.9f3c01ab.pt`` holds the step and the CRC-32 of the content. A damaged file is
detected before anything is loaded from it.
"""

import os
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import torch

from cacr.errors import UserError
from cacr.reading.files import require_file
from cacr.reading.tensors import read_torch
from cacr.runs.checkpoint import checked_state

State = dict[str, Any]
KEEP = 2
_NAME = re.compile(r"step-(\d{8})\.([0-9a-f]{8})\.pt")


class _Checksum:
    """A file for writing that also computes the CRC-32 of the data."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.value = 0

    def write(self, data: bytes) -> int:
        self.value = zlib.crc32(data, self.value)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()


def save_checkpoint(folder: Path, step: int, state: State) -> Path:
    """Write ``state``, then remove all checkpoints except the last two.

    If this fails, nothing is lost: earlier checkpoints are removed only after the new one is on the disk.
    """
    temporary = folder / ".writing.tmp"
    try:
        with temporary.open("wb") as file:
            checked = _Checksum(file)
            torch.save(state, checked)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        path = folder / f"step-{step:08d}.{checked.value:08x}.pt"
        temporary.replace(path)
    except (OSError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "inline_container" not in str(error):
            raise  # torch's writer reports a full disk as a RuntimeError, but other RuntimeErrors are bugs
        temporary.unlink(missing_ok=True)
        kept = list_checkpoints(folder)
        hint = (
            f"the run can be resumed from step {kept[-1][0]}"
            if kept
            else "no checkpoint had been written yet"
        )
        reason = error.strerror if isinstance(error, OSError) else "the file could not be completed"
        raise UserError(
            f"cannot write a checkpoint into {folder} ({reason}): is the disk full? {hint}"
        ) from error
    for _, old in list_checkpoints(folder)[:-KEEP]:
        old.unlink()
    return path


def list_checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """(step, file) of every checkpoint, oldest first."""
    found = ((_NAME.fullmatch(path.name), path) for path in folder.glob("step-*.pt"))
    return sorted((int(match[1]), path) for match, path in found if match)


def load_checkpoint(path: Path) -> State:
    """Load the state in ``path``, after checking its checksum.

    Raises:
        UserError: the file is damaged.
    """
    require_file(path)
    match = _NAME.fullmatch(path.name)
    if match is None or _crc32(path) != int(match[2], 16):
        raise UserError(f"{path} is damaged (its checksum does not match)")
    return checked_state(read_torch(path), path)


def load_latest(folder: Path, warn: Callable[[str], None]) -> State | None:
    """The newest undamaged checkpoint, or None if there is no checkpoint.

    Raises:
        UserError: there are checkpoints, but all are damaged.
    """
    found = list_checkpoints(folder)
    for _, path in reversed(found):
        try:
            return load_checkpoint(path)
        except UserError as error:
            warn(f"{error}; using the previous checkpoint")
    if found:
        raise UserError(f"all checkpoints in {folder} are damaged: start again with another --out")
    return None


def _crc32(path: Path) -> int:
    value = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            value = zlib.crc32(block, value)
    return value
