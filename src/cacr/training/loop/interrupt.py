"""Handle Ctrl-C and SIGTERM: finish the step, save, and say how to continue."""

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

from cacr.training.loop.signals import SignalWatch

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """While active, the first signal sets ``requested``; a second Ctrl-C stops at once.

    Args:
        answer: called immediately at the first signal, in another thread, because the step may still take long.
    """

    def __init__(self, answer: Callable[[], None]) -> None:
        self.requested = False
        self._answer, self._answered = answer, False
        self._watch = SignalWatch(self._notice)
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._watch.__enter__()
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def _notice(self, number: int) -> None:
        if number in _SIGNALS and not self._answered:
            self._answered = True
            self._answer()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._watch.__exit__(kind, error, trace)
