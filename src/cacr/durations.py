"""Durations as people write them: ``90s``, ``30m``, ``2h``, ``1h30m``."""

import re

HOUR, MINUTE = 3600, 60

MOST_SECONDS = 8760 * HOUR
"""A year: a longer time is a wrong unit."""

_NUMBER = r"(\d{1,12}(?:\.\d{1,6})?)"
_WRITTEN = re.compile(
    rf"(?:{_NUMBER}\s*h)?\s*(?:{_NUMBER}\s*m(?:in)?)?\s*(?:{_NUMBER}\s*s)?", re.ASCII | re.IGNORECASE
)


def seconds_of(written: object) -> int:
    """The seconds of a text such as ``1h30m``.

    Raises:
        ValueError: the text has another form (such as a number without a unit), or the time is too short or too long.
    """
    found = _WRITTEN.fullmatch(written.strip()) if isinstance(written, str) else None
    if found is None or not any(found.groups()):
        raise ValueError("must be a time with a unit, such as 90s, 30m, 2h or 1h30m")
    parts = zip(found.groups(), (HOUR, MINUTE, 1), strict=True)
    seconds = round(sum(float(number or 0) * unit for number, unit in parts))
    if not 1 <= seconds <= MOST_SECONDS:
        raise ValueError(f"must be at least one second and at most {MOST_SECONDS // HOUR:,}h (a year)")
    return seconds


def short_time(seconds: int) -> str:
    """The shortest text for a number of seconds that :func:`seconds_of` can read.

    Example:
        >>> short_time(5400)
        '1h30m'
    """
    parts = {
        "h": seconds // HOUR,
        "m": seconds % HOUR // MINUTE,
        "s": seconds % MINUTE,
    }
    return "".join(f"{number}{unit}" for unit, number in parts.items() if number)


def in_short(written: object) -> str:
    """The duration in its standard form, so that equal times are equal texts."""
    return short_time(seconds_of(written))


def duration(seconds: float) -> str:
    """A time that is easy to read: ``42 s``, ``3 min 10 s``, ``5 h 12 min``, ``3 days 4 h``."""
    seconds = round(seconds)
    for name, size, sub, sub_size in (
        ("days", 86400, "h", 3600),
        ("h", 3600, "min", 60),
        ("min", 60, "s", 1),
    ):
        if seconds >= size:
            rest = seconds % size // sub_size
            return f"{seconds // size} {name} {rest} {sub}" if rest else f"{seconds // size} {name}"
    return f"{seconds} s"
