"""The record of a cell: one small JSON file with the measurements and everything that they depend on."""

import json
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import TypeAdapter

from cacr.errors import UserError
from cacr.files import write_atomically
from cacr.ledger.cell import Cell
from cacr.reading.documents import read_json
from cacr.runs.result import Finite, versions
from cacr.training.processes.precision import cpu_field


def machine_name() -> str:
    """The processor as Linux names it, elsewhere its kind; then the GPU, which cells use if there is one."""
    processor = cpu_field("model name") or platform.processor() or platform.machine()
    return f"{processor}, {torch.cuda.get_device_name()}" if torch.cuda.is_available() else processor


@cache
def current_commit() -> str:
    """The commit of the checkout that this process runs from, as it was when it was first asked."""
    return commit_of(Path(__file__).parents[1])


def commit_of(package: Path) -> str:
    """The commit of a checkout of cacr, followed by ``-dirty`` if files were changed since.

    Empty without a checkout. A virtual environment may lie in a checkout of something else, whose commit says nothing.

    Args:
        package: folder of the package.
    """
    if _git(package, "rev-parse", "--show-prefix") != "src/cacr/":
        return ""
    return _git(package, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


def _git(folder: Path, *arguments: str) -> str:
    """What git says about a folder; empty if it cannot. It takes no lock, because the user may be working there."""
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return said.stdout.strip() if said.returncode == 0 else ""


@dataclass(frozen=True)
class Record:
    """A finished cell.

    Attributes:
        cell: everything that influences it (:attr:`Cell.content`).
        scores: protocol -> subject -> score in [0, 1]; several metrics of one protocol have different names.
        test_images: protocol -> number of its test images; missing in records of older versions, and for the mean over
            several data sets.
        resolved: the settings as the training resolved them.
        budget: images, views, steps and views seen.
        curves: metric -> [epoch, value] pairs of the training.
        verdict: verdict of the diagnostics.
        seconds: time of ``training`` and ``evaluation``.
        versions: versions of the software.
        commit: commit of cacr, if it runs from a checkout, and whether files were changed since.
        machine: its processor, and its GPU if it has one.
    """

    cell: dict[str, Any]
    scores: dict[str, dict[str, Finite]]
    test_images: dict[str, int] = field(default_factory=dict)
    resolved: dict[str, Any] = field(default_factory=dict)
    budget: dict[str, int] = field(default_factory=dict)
    curves: dict[str, list[list[Finite]]] = field(default_factory=dict)
    verdict: str = ""
    seconds: dict[str, Finite] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=versions)
    commit: str = field(default_factory=current_commit)
    machine: str = field(default_factory=machine_name)

    def score(self, protocol: str, subject: str = "encoder") -> float | None:
        """A score; None if it was not measured."""
        return self.scores.get(protocol, {}).get(subject)


@dataclass(frozen=True)
class Choice:
    """What trials decided.

    Attributes:
        settings: the best ones.
        scores: digest of each trial -> its score; 0 if it diverged.
    """

    settings: dict[str, Any]
    scores: dict[str, Finite]


@dataclass(frozen=True)
class Failure:
    """Why a cell failed when it was last tried.

    Attributes:
        why: in words.
        kind: ``diverged``: the settings are to blame, because a number of the training was no longer finite; ``other``:
            anything else, such as a full disk or missing data, which says nothing about the settings.
    """

    why: str
    kind: Literal["diverged", "other"] = "other"


_RECORD, _CHOICE, _FAILURE = TypeAdapter(Record), TypeAdapter(Choice), TypeAdapter(Failure)


@dataclass(frozen=True)
class Ledger:
    """A folder of records, and of running cells.

    Attributes:
        path: ``cells/`` has a record per finished cell, and the reasons why others failed; ``choices/`` what trials
            decided; ``runs/`` has run folders, which may be removed.
    """

    path: Path

    @property
    def cells(self) -> Path:
        """Folder of the records, which are worth keeping."""
        return self.path / "cells"

    @property
    def made(self) -> Path:
        """Folder of small data sets that smoke runs create."""
        return self.path / "made"

    def run(self, cell: Cell) -> Path:
        """The run folder of a cell, shared by all cells of the same training."""
        return self.path / "runs" / cell.training

    def lock(self, cell: Cell) -> Path:
        """The lock file of a training, locked by the process that works on it."""
        return self.path / "runs" / f"{cell.training}.lock"

    def file(self, cell: Cell) -> Path:
        """The record of a cell."""
        return self.cells / f"{cell.digest}.json"

    def failure_file(self, cell: Cell) -> Path:
        """The file that says why a cell failed."""
        return self.cells / f"{cell.digest}.failed.json"

    def old_failure_file(self, cell: Cell) -> Path:
        """The same as earlier versions wrote it: the reason alone, as text."""
        return self.cells / f"{cell.digest}.failed.txt"

    def find(self, cell: Cell) -> Record | None:
        """The record of a cell; None if it is not finished.

        Raises:
            UserError: the file is damaged, or belongs to another cell.
        """
        file = self.file(cell)
        if not file.exists():
            return None
        record = read_json(file, _RECORD, hint="remove it to run the cell again")
        if record.cell != cell.content:
            raise UserError(f"{file} is the record of another cell: remove it to run this cell again")
        return record

    def failure(self, cell: Cell) -> Failure | None:
        """Why a cell failed when it was last tried; None if it did not fail.

        Raises:
            UserError: the file is damaged.
        """
        file, old = self.failure_file(cell), self.old_failure_file(cell)
        if file.exists():
            return read_json(file, _FAILURE, hint="remove it to run the cell again")
        return Failure(old.read_text(encoding="utf-8", errors="replace").strip()) if old.exists() else None

    def choice_file(self, trials: Sequence[Cell]) -> Path:
        """What some trials decided; the name is a digest of theirs."""
        names = " ".join(sorted(cell.digest for cell in trials))
        return self.path / "choices" / f"{blake2b(names.encode(), digest_size=8).hexdigest()}.json"

    def decided(self, trials: Sequence[Cell]) -> Choice | None:
        """What some trials decided; None if they have not.

        Raises:
            UserError: the file is damaged.
        """
        file = self.choice_file(trials)
        if not file.exists():
            return None
        return read_json(file, _CHOICE, hint="remove it to decide again by the trials")

    def decide(self, trials: Sequence[Cell], choice: Choice) -> None:
        """Store what some trials decided, once and for all."""
        file = self.choice_file(trials)
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, (json.dumps(asdict(choice), indent=1) + "\n").encode())

    def keep(self, cell: Cell, record: Record) -> None:
        """Write the record of a cell."""
        self.cells.mkdir(parents=True, exist_ok=True)
        write_atomically(self.file(cell), (json.dumps(asdict(record), indent=1) + "\n").encode())
        self.failure_file(cell).unlink(missing_ok=True)
        self.old_failure_file(cell).unlink(missing_ok=True)

    def fail(self, cell: Cell, failure: Failure) -> None:
        """Store why a cell failed."""
        self.cells.mkdir(parents=True, exist_ok=True)
        write_atomically(self.failure_file(cell), (json.dumps(asdict(failure), indent=1) + "\n").encode())
