"""How much memory can be had, and asking before it is taken."""

import math
from pathlib import Path
from typing import NamedTuple

from cacr.errors import UserError

_UNLIMITED = 2**60
"""From here on a limit is none: version 1 of control groups writes the largest number that it has."""

HOLES = 1.3
"""The heap of a process holds more than what is alive in it, because a free block is too small or lies between
others. With every block fetched from the system by itself, where there are no holes, a step needs what
:mod:`cacr.training.live` says to 1 %. In glibc's heap steps need 1.05 (few large blocks) to 1.5 times that (many
blocks of different sizes), a little otherwise in each run."""

WORKER = 60_000_000
"""Of a decoding process that it does not share with the one that started it: Python writes to every object that it
looks at, and a page that is written to is copied. 48 MB were measured beside the batch in its hands, on images of
192 pixels."""


def free_memory(root: Path = Path("/")) -> float:
    """Bytes that can be had without swapping: the least of what the system and every control group above leave.

    Args:
        root: where ``proc`` and ``sys`` are.

    Returns:
        Infinity where the system does not say.
    """
    return min(_system(root), *(_left(group) for group in _control_groups(root)), math.inf)


def resident_memory(root: Path = Path("/")) -> int:
    """Bytes that this process holds in memory now; 0 where the system does not say."""
    try:
        lines = (root / "proc/self/status").read_text(encoding="utf-8").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
    except (OSError, StopIteration):
        return 0


def require_memory(size: float, what: str, hint: str = "") -> None:
    """Refuse what cannot fit before it is asked for.

    Args:
        size: in bytes.
        what: begins the message.
        hint: ends it, where there is something to do.

    Raises:
        UserError: says how much is needed and how much there is.
    """
    free = free_memory()
    if size > free:
        more = f"; {hint}" if hint else ""
        raise UserError(f"{what} needs {gigabytes(size)} of memory, and {gigabytes(free)} are free{more}")


def gigabytes(size: float, digits: int = 1) -> str:
    """A number of bytes for people; enormous ones, as damaged files claim them, as a power of ten."""
    size /= 1e9
    return f"{size:,.{digits}f} GB" if size < 1e6 else f"{size:.0e} GB"


def _system(root: Path) -> float:
    try:
        lines = (root / "proc/meminfo").read_text(encoding="ascii").splitlines()
        return 1024 * next(float(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return math.inf


class _Group(NamedTuple):
    """The files of a control group: its limit, what it uses, and the entry of its file cache in ``memory.stat``."""

    folder: Path
    limit: str
    used: str
    cache: str


def _control_groups(root: Path) -> list[_Group]:
    """The control group of this process and those around it, of version 2 (``0::/NAME``) and 1 (``4:memory:/NAME``).

    In a container the name may be that of the system outside: what lies above it is looked at all the same.
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
    """What a control group may still take; its file cache can be dropped and counts as free."""
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
