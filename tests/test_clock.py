"""When a process began."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from cacr import clock

_CHILD = """
import time; time.sleep(0.3)
from cacr.clock import process_began
print(process_began())
"""


def test_a_process_began_before_its_first_import() -> None:
    before = time.monotonic()
    child = subprocess.run([sys.executable, "-c", _CHILD], capture_output=True, text=True, check=True)
    after = time.monotonic()
    began = float(child.stdout)
    # The system counts in hundredths of a second. What the child slept, and what it took to start, is behind it.
    assert before - 0.1 <= began <= after - 0.3


def test_where_the_system_does_not_tell_it_is_the_first_import(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    assert clock.process_began() == clock._FIRST_SEEN
