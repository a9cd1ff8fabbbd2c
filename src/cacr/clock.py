"""When this process started, which is seconds before its first line runs, because of imports."""

import os
import time
from pathlib import Path

_FIRST_SEEN = time.monotonic()
_START = 19
"""Index of the start time (in ticks since boot) among the fields after the name of the process."""


def process_began() -> float:
    """Start of the process on the clock of ``time.monotonic``; the first import if the system does not report it."""
    try:
        fields = (
            Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
        since_boot = int(fields[_START]) / os.sysconf("SC_CLK_TCK")
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot
    except (OSError, ValueError, IndexError, AttributeError):
        return _FIRST_SEEN
    return min(_FIRST_SEEN, time.monotonic() - age)
