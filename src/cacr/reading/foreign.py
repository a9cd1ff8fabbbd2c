"""Turn any error of a library that reads a file into one clear error."""

from collections.abc import Iterator
from contextlib import contextmanager

from cacr.errors import UserError, refusal

MOST_REASON = 200
"""Number of characters of a library's message that are shown; some messages repeat the whole input."""


@contextmanager
def foreign(what: str, hint: str = "") -> Iterator[None]:
    """While a library reads ``what``, turn its errors into one that the user can fix.

    Put only the call of the library into the block: a bug in cacr must not look like a damaged file.

    Args:
        what: start of the message, such as ``photos.npz cannot be read as .npz``.
        hint: end of the message: what the user can do.

    Raises:
        UserError: instead of any other error.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{what}: {reason(error)}{f'; {hint}' if hint else ''}") from error


def reason(error: Exception) -> str:
    """The first line of an error's message, or its type if it has none; system errors in our own words."""
    if refused := refusal(error):
        return refused
    text = str(error).strip().split("\n", 1)[0].rstrip(":")  # the next lines, after the colon, are dropped
    return (text if len(text) <= MOST_REASON else f"{text[:MOST_REASON]} ...") or type(error).__name__
