"""Read tables of images: CSV files with a header line, and plain lists of names."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cacr.errors import UserError
from cacr.reading.files import numbered_lines, read_text
from cacr.reading.foreign import foreign

MOST_TABLE = 2**30
"""Largest table that is read, in bytes; ten million rows are smaller."""

_SEPARATORS = ",;\t"


@dataclass(frozen=True)
class Table:
    """Rows of text under named columns.

    Attributes:
        path: The file.
        columns: Column names as in the file.
        rows: One text per column in each row.
        lines: The line of the file on which each row ends.
    """

    path: Path
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]

    def find(self, names: Sequence[str], what: str) -> int:
        """The number of the first column with one of these names; upper and lower case are equal.

        Raises:
            UserError: there is no such column; lists the columns of the file.
        """
        known = [name.strip().lower() for name in self.columns]
        for name in names:
            if name in known:
                return known.index(name)
        found = ", ".join(repr(name) for name in self.columns[:10])
        raise UserError(
            f"{self.path} has no column for {what}: its first line is {found}; call one of the columns "
            f"{' or '.join(repr(name) for name in names[:3])}"
        )


def read_table(path: Path) -> Table:
    """Read a UTF-8 CSV file whose first line names the columns; the separator is a comma, semicolon or tab.

    Blank lines are ignored, and fields at the end of a row may be missing.

    Raises:
        UserError: it is not such a file, or a row has more fields than there are columns.
    """
    text = read_text(path, MOST_TABLE)
    heading = text.split("\n", 1)[0]
    separator = max(_SEPARATORS, key=heading.count)
    rows, lines = [], []
    with foreign(f"{path} cannot be read as CSV"):
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        for row in reader:
            if any(field.strip() for field in row):
                rows.append(row)
                lines.append(reader.line_num)
    if not rows:
        raise UserError(f"{path} is empty: its first line must name the columns")
    columns = rows[0]
    for row, line in zip(rows, lines, strict=True):
        if len(row) > len(columns):
            raise UserError(
                f"{path}, line {line}: {len(row)} fields for {len(columns)} columns; put quotes around fields "
                f"that contain {separator!r}"
            )
    filled = tuple(tuple(row) + ("",) * (len(columns) - len(row)) for row in rows[1:])
    return Table(path, tuple(columns), filled, tuple(lines[1:]))


def read_names(path: Path, columns: Sequence[str]) -> list[str]:
    """Names from a CSV file with one of these columns, or from a ``.txt`` file with one name per line."""
    if path.suffix.lower() == ".txt":
        return [line for _, line in numbered_lines(path)]
    table = read_table(path)
    column = table.find(columns, "the images")
    return [name for row in table.rows if (name := row[column].strip())]


def write_table(path: Path, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write a CSV file that :func:`read_table` can read; not atomic, the caller takes care of that."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
