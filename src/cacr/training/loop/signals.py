"""React to signals at once, even while the main thread is computing."""

import os
import signal
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

_END = 0
"""The byte that ends the thread; no signal has this number."""


class SignalWatch:
    """While active, calls a function in another thread for every signal that Python handles.

    Python's own handlers run in the main thread, between two lines of Python: in the backward pass of a large batch,
    this may take seconds. Earlier watchers still receive the signals. Only the main thread can watch signals; in
    other threads this does nothing.

    Args:
        notice: called with the number of the signal.
    """

    def __init__(self, notice: Callable[[int], None]) -> None:
        self._notice = notice
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._read, self._write = os.pipe()
            os.set_blocking(self._write, False)  # required by Python: a signal must not wait
            self._before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
            self._thread = threading.Thread(target=self._watch, name="signals", daemon=True)
            self._thread.start()
        return self

    def _watch(self) -> None:
        while (number := os.read(self._read, 1)[0]) != _END:
            if self._before != -1:
                os.write(self._before, bytes([number]))
            self._notice(number)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is None:
            return
        signal.set_wakeup_fd(self._before)
        os.write(self._write, bytes([_END]))
        self._thread.join()
        os.close(self._read)
        os.close(self._write)
