"""Find out the size of the processor's caches."""

from collections.abc import Iterator

SYSTEM = "/sys/devices/system/cpu/cpu0/cache"
"""Folder in which Linux describes the caches of the first core, one sub-folder each."""

LEAST, MOST = 1 << 19, 1 << 21
"""Smallest and largest block in bytes: below, calls cost as much as their work; above, nothing is gained
(measured)."""

_CACHES = 8  # more than any core has
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def block_bytes(folder: str = SYSTEM) -> int:
    """Bytes of a block that stays in a core's share of the caches, a power of two.

    Three such blocks are used at a time: similarities, their weights and a temporary one. A core has its second-level
    cache and its share of the third level. If the system does not report them, this is ``MOST``.

    Args:
        folder: folder of the caches of a core.
    """
    share = sum(_shares(folder)) // 3
    if share == 0:
        return MOST
    return min(max(1 << (share.bit_length() - 1), LEAST), MOST)


def block_shape(size: int) -> tuple[int, int]:
    """Rows and columns of a float32 block of ``size`` bytes, a power of two: twice as wide as high, or square."""
    rows = 1 << ((size // 4).bit_length() - 1) // 2
    return rows, size // 4 // rows


def _shares(folder: str) -> Iterator[int]:
    """Bytes of each cache above the first level, divided by the number of cores that share it."""
    for number in range(_CACHES):
        try:
            level, size, cores = (
                _read(f"{folder}/index{number}/{name}") for name in ("level", "size", "shared_cpu_list")
            )
            if int(level) > 1:
                yield _bytes(size) // _count(cores)
        except (OSError, ValueError):  # a container may hide some of them
            continue


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:  # noqa: PTH123 - losses import torch and next to nothing else
        return file.read().strip()


def _bytes(text: str) -> int:
    """Bytes of a text such as ``1024K``."""
    return int(text[:-1]) * _UNITS[text[-1]] if text[-1:] in _UNITS else int(text)


def _count(text: str) -> int:
    """Number of cores in a text such as ``0-3,8``, at least 1."""
    pairs = [part.split("-") for part in text.split(",")]
    return max(1, sum(int(pair[-1]) - int(pair[0]) + 1 for pair in pairs))
