"""When this process began, which is earlier than its first line: imports take seconds."""

import os
import time
from pathlib import Path

_FIRST_SEEN = time.monotonic()
_START = 19
"""Place of the starting time, in ticks since the machine began, among the fields after the name of the process."""


def process_began() -> float:
    """The moment on the clock of ``time.monotonic``; that of the first import where the system does not tell."""
    try:
        fields = (
            Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
        since_boot = int(fields[_START]) / os.sysconf("SC_CLK_TCK")
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot
    except (OSError, ValueError, IndexError, AttributeError):
        return _FIRST_SEEN
    return min(_FIRST_SEEN, time.monotonic() - age)
