"""Errors with messages for users."""

import re
from collections.abc import Sequence

INTERRUPTED = 130
"""Exit code after Ctrl-C, as in shells."""


class UserError(Exception):
    """An error that the user can fix.

    The message says what is wrong, where, and what to do. The command line prints it without a traceback and
    exits with code 2.
    """


class SettingsError(UserError):
    """One or more wrong settings, all reported at once."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        count = "1 wrong setting" if len(self.problems) == 1 else f"{len(self.problems)} wrong settings"
        super().__init__("\n".join([f"{count}:", *(f"  - {problem}" for problem in self.problems)]))


class MissingExtraError(UserError):
    """A feature needs an optional package that is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs an optional package: pip install 'cacr[{extra}]' "
            f"(in a checkout: pip install '.[{extra}]')"
        )


class StoppedError(UserError):
    """Ctrl-C ended the work, and its state is kept: the message says how to continue; the exit code is 130."""


class UnreadableImageError(UserError):
    """An image cannot be decoded; ``where`` names the file."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, reason)  # both arguments, so that the error can be sent from a worker process
        self.where = where
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


_ALLOCATION = re.compile(
    r"DefaultCPUAllocator|out of memory|can't allocate memory|integer multiplication overflow|calculation overflowed"
)


def refusal(error: BaseException) -> str | None:
    """Describe an error of the system (memory, files, devices); None for any other error.

    Recognises how Python, NumPy and torch report missing memory, and every ``OSError``.
    """
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and _ALLOCATION.search(str(error))):
        return "there is not enough memory"
    if isinstance(error, RuntimeError) and str(error).startswith(
        "Symlink loop"
    ):  # pathlib's, up to Python 3.12
        return str(error)[:300]
    if isinstance(error, OSError):
        name = "" if error.filename is None else f"{str(error.filename)[:200]}: "
        return f"{name}{error.strerror or error or type(error).__name__}"
    return None
