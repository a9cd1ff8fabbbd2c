"""Lengths of time as people write them: ``90s``, ``30m``, ``2h``, ``1h30m``."""

import re

HOUR, MINUTE = 3600, 60

MOST_SECONDS = 8760 * HOUR
"""A year: who writes more has mistaken a unit."""

_NUMBER = r"(\d{1,12}(?:\.\d{1,6})?)"
_WRITTEN = re.compile(
    rf"(?:{_NUMBER}\s*h)?\s*(?:{_NUMBER}\s*m(?:in)?)?\s*(?:{_NUMBER}\s*s)?", re.ASCII | re.IGNORECASE
)


def seconds_of(written: object) -> int:
    """The seconds of a text such as ``1h30m``.

    Raises:
        ValueError: it is no such text (a number without a unit is none), or no time that a run can take.
    """
    found = _WRITTEN.fullmatch(written.strip()) if isinstance(written, str) else None
    if found is None or not any(found.groups()):
        raise ValueError("must be a time with its unit, such as 90s, 30m, 2h or 1h30m")
    parts = zip(found.groups(), (HOUR, MINUTE, 1), strict=True)
    seconds = round(sum(float(number or 0) * unit for number, unit in parts))
    if not 1 <= seconds <= MOST_SECONDS:
        raise ValueError(f"must be at least a second and at most {MOST_SECONDS // HOUR:,}h, which is a year")
    return seconds


def short_time(seconds: int) -> str:
    """The shortest text that :func:`seconds_of` reads as so many seconds.

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
    """The same time in one spelling, so that equal times are equal texts."""
    return short_time(seconds_of(written))
