"""Read NumPy arrays from files, without trusting their headers."""

import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from cacr.errors import UserError
from cacr.reading.files import open_file
from cacr.reading.foreign import foreign
from cacr.reading.memory import require_memory

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def read_npz(path: Path, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Arrays of an ``.npz`` file by name; names that are not in the file are left out.

    Raises:
        UserError: the file is damaged, encrypted, larger than memory, or holds pickled objects.
    """
    found: dict[str, NDArray[Any]] = {}
    with open_file(path) as file, foreign(f"{path} cannot be read as .npz"), zipfile.ZipFile(file) as archive:
        members = {member.filename: member for member in archive.infolist()}
        requested = {name: members[f"{name}.npy"] for name in names if f"{name}.npy" in members}
        total = sum(member.file_size for member in requested.values())
        require_memory(total, f"{path} unpacked")
        for name, member in requested.items():
            with archive.open(member) as stream:
                shape, dtype = _header(stream, f"{path}, {name}")
                _require_size(shape, dtype, member.file_size, f"{path}, {name}")
            with archive.open(member) as stream:
                found[name] = npy.read_array(stream, allow_pickle=False)
    return found


def names_in(path: Path) -> list[str]:
    """The names of the arrays in an ``.npz`` file."""
    with open_file(path) as file, foreign(f"{path} cannot be read as .npz"), zipfile.ZipFile(file) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


def map_npy(path: Path) -> NDArray[Any]:
    """Memory-map the array of an ``.npy`` file; writing to it does not change the file or other processes.

    Raises:
        UserError: the file is damaged, or holds pickled objects.
    """
    with open_file(path) as file, foreign(f"{path} cannot be memory-mapped as .npy"):
        shape, dtype = _header(file, str(path))
        size = path.stat().st_size
    _require_size(shape, dtype, size, str(path))
    with foreign(f"{path} cannot be memory-mapped as .npy"):
        return npy.open_memmap(path, mode="c")


def _header(stream: IO[bytes], where: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = npy.read_magic(stream)
    if version not in _HEADERS:
        raise UserError(f"{where}: version {version} of the .npy format is not supported")
    shape, _, dtype = _HEADERS[version](stream)
    if dtype.hasobject:
        raise UserError(f"{where} holds pickled objects, which could run any program: it is not read")
    return shape, dtype


def _require_size(shape: tuple[int, ...], dtype: np.dtype[Any], size: int, where: str) -> None:
    """Refuse a shape that does not fit the number of bytes, before memory is allocated."""
    sound = all(isinstance(side, int) and side >= 0 for side in shape)
    if not sound or math.prod(shape) * dtype.itemsize > size:
        raise UserError(f"{where} is damaged: its header says {dtype} {shape}, but it has {size:,} bytes")
