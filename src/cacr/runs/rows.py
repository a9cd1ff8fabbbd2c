"""``metrics.jsonl``: all logged metrics, one JSON object per line."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from pydantic_core import from_json

from cacr.reading.files import kind_of, open_file

Row = dict[str, float]
"""Metrics by name. ``step`` is always there, as an integer; ``epoch`` is finite if it is there."""

MOST_STEPS = 10**12
"""Largest number of steps, epochs and batches in a file; runs have fewer."""

Count = Annotated[int, Field(ge=0, le=MOST_STEPS)]
"""Type of steps and similar numbers in the schema of a file."""

_LARGEST_NUMBER = 2.0**63


def read_rows(path: Path) -> list[Row]:
    """The rows of a file, see :class:`GrowingRows`; empty if there is no file."""
    return GrowingRows(path).read()


class GrowingRows:
    """The rows of a file that a training appends to; rows that were read are not parsed again.

    Lines that are not JSON objects with a step are skipped: a killed process leaves half a line, and half a number
    can be valid JSON. In other lines, values that are not numbers are left out; NaN and infinity count as numbers.

    Args:
        path: the ``metrics.jsonl``.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: list[Row] = []
        self._bytes = 0

    def read(self) -> list[Row]:
        """All rows of the file."""
        if kind_of(self._path) is None:
            return []
        with open_file(self._path) as file:
            file.seek(self._bytes)
            new = file.read()
        whole = new.rfind(b"\n") + 1
        self._seen += _parsed(new[:whole])
        self._bytes += whole
        return [*self._seen, *_parsed(new[whole:])]


def _parsed(content: bytes) -> list[Row]:
    found = (_row(line) for line in content.split(b"\n"))
    return [row for row in found if row is not None]


def _row(line: bytes) -> Row | None:
    try:
        values = from_json(line)
    except ValueError:
        return None
    if not isinstance(values, dict):
        return None
    row = {name: value for name, value in values.items() if _is_number(value)}
    step, epoch = row.get("step"), row.get("epoch", 0)
    if not isinstance(step, int) or not 0 <= step <= MOST_STEPS:
        return None
    if not 0 <= epoch <= MOST_STEPS:
        del row["epoch"]
    return row


def _is_number(value: Any) -> bool:
    """Whether a value is a number that fits into a float; True is not a number."""
    return isinstance(value, float) or (type(value) is int and abs(value) < _LARGEST_NUMBER)
