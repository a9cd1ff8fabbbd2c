"""Find out how much memory is free, and check before large allocations."""

import math
from pathlib import Path
from typing import NamedTuple

from cacr.errors import UserError

_UNLIMITED = 2**60
"""A limit this large means no limit: version 1 of control groups writes the largest number that it has."""

HOLES = 1.5
"""Factor on the live memory of a step: the heap of a process is larger, because free blocks are too small or lie
between others. If every block comes directly from the system, without holes, a step needs what
:mod:`cacr.training.cost.live` says, within 5 %. In glibc's heap steps need 1.05 (few large blocks) to 1.6 times that
(many blocks of different sizes), and up to 2.1 times where a momentum encoder leaves blocks of its own sizes in between
(``benchmarks/memory.py``)."""

WORKER = 60_000_000
"""Memory of a decoding process that it does not share with its parent: Python writes to every object that it uses, and
the system copies a page that is written to. 48 MB were measured in addition to its batch, on images of 192 pixels."""


def free_memory(root: Path = Path("/")) -> float:
    """Bytes that are available without swapping: the minimum over the system and all control groups of this process.

    Args:
        root: where ``proc`` and ``sys`` are.

    Returns:
        Infinity if the system does not report it.
    """
    return min(_system(root), *(_left(group) for group in _control_groups(root)), math.inf)


def resident_memory(root: Path = Path("/")) -> int:
    """Bytes of memory that this process uses now; 0 if the system does not report it."""
    try:
        lines = (root / "proc/self/status").read_text(encoding="utf-8").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
    except (OSError, StopIteration):
        return 0


def require_memory(size: float, what: str, hint: str = "") -> None:
    """Refuse an allocation that cannot fit.

    Args:
        size: bytes.
        what: start of the message.
        hint: end of the message: what the user can do.

    Raises:
        UserError: says how much is needed and how much is free.
    """
    free = free_memory()
    if size > free:
        more = f"; {hint}" if hint else ""
        raise UserError(
            f"{what} needs {gigabytes(size)} of memory, but only {gigabytes(free)} are free{more}"
        )


def gigabytes(size: float, digits: int = 1) -> str:
    """A number of bytes in GB; enormous numbers, as in damaged files, as a power of ten."""
    size /= 1e9
    return f"{size:,.{digits}f} GB" if size < 1e6 else f"{size:.0e} GB"


def _system(root: Path) -> float:
    try:
        lines = (root / "proc/meminfo").read_text(encoding="ascii").splitlines()
        return 1024 * next(float(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return math.inf


class _Group(NamedTuple):
    """The files of a control group: its limit, its usage, and the entry of its file cache in ``memory.stat``."""

    folder: Path
    limit: str
    used: str
    cache: str


def _control_groups(root: Path) -> list[_Group]:
    """The control groups of this process and their parents, of version 2 (``0::/NAME``) and 1 (``4:memory:/NAME``).

    In a container the name may be that of the host; parent folders are tried in that case too.
    """
    mount = root / "sys/fs/cgroup"
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, _, rest = line.partition(":")
        kinds, _, name = rest.partition(":")
        if kinds == "":
            top, files = mount, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in kinds.split(","):
            top, files = (
                mount / "memory",
                ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
            )
        else:
            continue
        inner = top / name.strip("/")
        found += [_Group(folder, *files) for folder in (inner, *inner.parents) if folder.is_relative_to(top)]
    return found


def _left(group: _Group) -> float:
    """Bytes that a control group may still use; its file cache can be dropped and counts as free."""
    try:
        limit = (group.folder / group.limit).read_text(encoding="ascii").strip()
        if limit == "max" or int(limit) >= _UNLIMITED:
            return math.inf
        used = int((group.folder / group.used).read_text(encoding="ascii"))
        stat = dict(
            line.split() for line in (group.folder / "memory.stat").read_text(encoding="ascii").splitlines()
        )
        return max(0.0, int(limit) - used + int(stat.get(group.cache, 0)))
    except (OSError, ValueError):
        return math.inf
