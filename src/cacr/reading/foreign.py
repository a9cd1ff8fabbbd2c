"""Whatever a library raises over somebody else's bytes, as one error with a name."""

from collections.abc import Iterator
from contextlib import contextmanager

from cacr.errors import UserError, refusal

MOST_REASON = 200
"""Characters of a library's message that are told; some repeat the whole input."""


@contextmanager
def foreign(what: str, hint: str = "") -> Iterator[None]:
    """While a library reads ``what``, turn its errors into one that a person can act on.

    Put nothing into the block but the library's call: a fault of this package must not pass as a damaged file.

    Args:
        what: begins the message, such as ``photos.npz cannot be read as .npz``.
        hint: ends it, where there is something to do.

    Raises:
        UserError: in place of any other error.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{what}: {reason(error)}{f'; {hint}' if hint else ''}") from error


def reason(error: Exception) -> str:
    """The first line of what an error says, or its kind where it says nothing; a refusal in our own words."""
    if refused := refusal(error):
        return refused
    text = str(error).strip().split("\n", 1)[0].rstrip(":")  # what a colon announces stands on the next lines
    return (text if len(text) <= MOST_REASON else f"{text[:MOST_REASON]} ...") or type(error).__name__
