"""Errors in data, with messages for users."""

from dataclasses import dataclass

from cacr.errors import UserError
from cacr.files import printable


class MissingPartError(UserError):
    """The source does not have this part, for example no test images."""


@dataclass(frozen=True)
class Problem:
    """An image that is left out: its number in the source, its location, and the reason."""

    index: int
    where: str
    reason: str

    def __str__(self) -> str:
        return printable(f"{self.where}: {self.reason}")  # one line for any file name


def too_many_unreadable(problems: list[Problem], count: int, limit: float) -> UserError:
    """The error for data with too many unreadable images."""
    examples = "\n".join(f"  {problem}" for problem in problems[:5])
    return UserError(
        f"{len(problems):,} of {count:,} images cannot be read, more than the limit of {limit:.0%}; for example\n"
        f"{examples}\nFix or remove these files, or raise the limit with max_unreadable."
    )
