"""What can be wrong with data, as errors a person can act on."""

from dataclasses import dataclass

from cacr.errors import UserError
from cacr.files import printable


class MissingPartError(UserError):
    """The source has no such part, for example no test images."""


@dataclass(frozen=True)
class Problem:
    """An image that was left out: its number in the source, where it is, and why."""

    index: int
    where: str
    reason: str

    def __str__(self) -> str:
        return printable(f"{self.where}: {self.reason}")  # one line, whatever the file is called


def too_many_unreadable(problems: list[Problem], count: int, limit: float) -> UserError:
    """The error that stops a run whose data is mostly damage."""
    examples = "\n".join(f"  {problem}" for problem in problems[:5])
    return UserError(
        f"{len(problems):,} of {count:,} images cannot be read, and at most {limit:.0%} may be; for example\n"
        f"{examples}\nMend or remove these files, or allow more with max_unreadable."
    )
