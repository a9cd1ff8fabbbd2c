"""How much memory can be had, and asking before it is taken."""

import math
from pathlib import Path

from cacr.errors import UserError

_GROUPS = Path("/sys/fs/cgroup")


def free_memory() -> float:
    """Bytes that can be had without swapping; control groups count. Without limit where the system does not say."""
    return min(_system(), *(_left(folder) for folder in _control_groups()), math.inf)


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


def _system() -> float:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return 1024 * next(float(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return math.inf


def _control_groups() -> list[Path]:
    """The folders of this process's control group and of those around it (version 2)."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    names = [line.removeprefix("0::/") for line in lines if line.startswith("0::/")]
    return [
        folder
        for name in names
        for folder in (_GROUPS / name, *(_GROUPS / name).parents)
        if folder != folder.parent
    ]


def _left(group: Path) -> float:
    """What a control group may still take; its file cache can be dropped and counts as free."""
    try:
        limit = (group / "memory.max").read_text(encoding="ascii").strip()
        if limit == "max":
            return math.inf
        used = int((group / "memory.current").read_text(encoding="ascii"))
        stat = dict(line.split() for line in (group / "memory.stat").read_text(encoding="ascii").splitlines())
        return max(0.0, int(limit) - used + int(stat.get("inactive_file", 0)))
    except (OSError, ValueError):
        return math.inf
