"""What is kept of a cell for good: one small JSON file that says what was measured, with what, and on what."""

import json
import platform
import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from cacr.errors import UserError
from cacr.files import write_atomically
from cacr.ledger.cell import Cell
from cacr.reading.documents import read_json
from cacr.runs.result import Finite, versions


@dataclass(frozen=True)
class Record:
    """A finished cell.

    Attributes:
        cell: all that decides it (:attr:`Cell.content`).
        scores: protocol -> subject -> score in [0, 1]; several measures of one protocol have names of their own.
        resolved: the settings as the training resolved them.
        budget: images, views, steps and views seen.
        curves: figure -> [epoch, value] pairs, as the training measured them.
        verdict: of the diagnostics.
        seconds: of ``training`` and ``evaluation``.
        versions: of the software.
        commit: of this software, where it runs from a checkout.
        machine: its processor.
    """

    cell: dict[str, Any]
    scores: dict[str, dict[str, Finite]]
    resolved: dict[str, Any] = field(default_factory=dict)
    budget: dict[str, int] = field(default_factory=dict)
    curves: dict[str, list[list[Finite]]] = field(default_factory=dict)
    verdict: str = ""
    seconds: dict[str, Finite] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=versions)
    commit: str = field(default_factory=lambda: commit())
    machine: str = field(default_factory=lambda: platform.processor() or platform.machine())

    def score(self, protocol: str, subject: str = "encoder") -> float | None:
        """A score; None where it was not measured."""
        return self.scores.get(protocol, {}).get(subject)


_RECORD = TypeAdapter(Record)


def commit() -> str:
    """The commit of the checkout that this software runs from; empty where it is installed without one."""
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "rev-parse", "--short=12", "HEAD"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return said.stdout.strip() if said.returncode == 0 else ""


@dataclass(frozen=True)
class Ledger:
    """A folder of records, and of what is at work.

    Attributes:
        path: ``cells/`` holds a record for each finished cell, and says why others failed; ``runs/`` their run
            folders, which may be removed.
    """

    path: Path

    @property
    def cells(self) -> Path:
        """Records: what is worth keeping."""
        return self.path / "cells"

    @property
    def made(self) -> Path:
        """Small sets that smoke runs make for themselves."""
        return self.path / "made"

    def run(self, cell: Cell) -> Path:
        """The run folder of a cell, and of all others that judge the same training."""
        return self.path / "runs" / cell.training

    def lock(self, cell: Cell) -> Path:
        """Held by the process that works on a training."""
        return self.path / "runs" / f"{cell.training}.lock"

    def file(self, cell: Cell) -> Path:
        """The record of a cell."""
        return self.cells / f"{cell.digest}.json"

    def failure_file(self, cell: Cell) -> Path:
        """Why a cell failed."""
        return self.cells / f"{cell.digest}.failed.txt"

    def find(self, cell: Cell) -> Record | None:
        """The record of a cell; None where it is not done.

        Raises:
            UserError: the file is damaged, or is the record of another cell.
        """
        file = self.file(cell)
        if not file.exists():
            return None
        record = read_json(file, _RECORD, hint="remove it, and the cell is run again")
        if record.cell != cell.content:
            raise UserError(f"{file} is the record of another cell; remove it, and this one is run again")
        return record

    def failure(self, cell: Cell) -> str:
        """Why a cell failed when it was last tried; empty where it did not."""
        file = self.failure_file(cell)
        return file.read_text(encoding="utf-8", errors="replace").strip() if file.exists() else ""

    def keep(self, cell: Cell, record: Record) -> None:
        """Write the record of a cell."""
        self.cells.mkdir(parents=True, exist_ok=True)
        write_atomically(self.file(cell), (json.dumps(asdict(record), indent=1) + "\n").encode())
        self.failure_file(cell).unlink(missing_ok=True)

    def fail(self, cell: Cell, why: str) -> None:
        """Write down why a cell failed."""
        self.cells.mkdir(parents=True, exist_ok=True)
        write_atomically(self.failure_file(cell), f"{why}\n".encode())
