"""``metrics.jsonl``: one JSON object of figures a line, every figure that was ever logged."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from pydantic_core import from_json

from cacr.reading.files import kind_of, open_file

Row = dict[str, float]
"""Figures by name. ``step`` is among them and whole, ``epoch`` is finite where it is there."""

MOST_STEPS = 10**12
"""Steps, epochs and batches that a file may tell of; a run has fewer."""

Count = Annotated[int, Field(ge=0, le=MOST_STEPS)]
"""Of steps and the like, in the schema of a file."""

_LARGEST_NUMBER = 2.0**63


def read_rows(path: Path) -> list[Row]:
    """The rows of a file, see :class:`GrowingRows`; none where there is no file."""
    return GrowingRows(path).read()


class GrowingRows:
    """The rows of a file that a training appends to: what was read once is kept, not parsed again.

    A line that is no JSON object with a step is skipped: a killed process leaves half a line, and half a number is
    valid JSON too. Of other lines, what is no number is left out: figures are numbers, NaN and infinities among them.

    Args:
        path: the ``metrics.jsonl``.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: list[Row] = []
        self._bytes = 0

    def read(self) -> list[Row]:
        """All rows that are in the file now."""
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
    """Whether a value is a number that a float can hold; True is none."""
    return isinstance(value, float) or (type(value) is int and abs(value) < _LARGEST_NUMBER)
