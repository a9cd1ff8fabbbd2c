"""The run folder: names of its files, and locking; :class:`cacr.runs.run.Run` reads the files."""

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cacr.config import FORMAT, ResolvedSettings
from cacr.errors import UserError
from cacr.files import write_atomically
from cacr.reading.files import kind_of
from cacr.runs.rows import read_rows


@dataclass(frozen=True)
class RunFolder:
    """The files of one run."""

    path: Path

    @property
    def config(self) -> Path:
        """Resolved settings, format version and versions of the software."""
        return self.path / "config.yaml"

    @property
    def metrics(self) -> Path:
        """All logged metrics, one JSON object per line."""
        return self.path / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        """The last two states of the training."""
        return self.path / "checkpoints"

    @property
    def evaluation(self) -> Path:
        """One JSON file per result."""
        return self.path / "evaluation"

    @property
    def report(self) -> Path:
        """The report."""
        return self.path / "report.html"

    @property
    def unreadable(self) -> Path:
        """Files that are left out, and why."""
        return self.path / "unreadable.txt"

    @property
    def indices(self) -> Path:
        """Numbers of the images that an imbalance rule kept."""
        return self.path / "indices.json"

    @property
    def held_out(self) -> Path:
        """Numbers of the images that are measured, and of those that are not trained on."""
        return self.path / "held_out.json"

    @property
    def diagnostics(self) -> Path:
        """How the diagnostics are measured, and embeddings of one batch at a few epochs."""
        return self.path / "diagnostics"

    @property
    def reference(self) -> Path:
        """Curves of another run to draw behind those of this run; a user may put this file here."""
        return self.path / "reference.json"

    @property
    def verdict(self) -> Path:
        """The verdict, with its evidence and its history."""
        return self.path / "verdict.json"

    @property
    def best(self) -> Path:
        """The best encoder by the diagnostics, which use no labels; a folder like that of a run."""
        return self.path / "best"

    @property
    def start(self) -> Path:
        """The encoder before the first step; a folder like that of a run."""
        return self.path / "start"

    @property
    def holds_run(self) -> bool:
        """Whether a run was started here."""
        return kind_of(self.config) is not None

    def require_run(self) -> None:
        """Refuse a folder without a run."""
        if not self.holds_run:
            raise UserError(f"{self.path} is not a run folder (it has no config.yaml)")

    def require_new(self) -> None:
        """Refuse a folder that is not empty."""
        if self.holds_run:
            raise UserError(
                f"{self.path} already has a run: continue it with --resume, or choose another --out"
            )
        kind = kind_of(self.path)
        if kind is not None and (kind != "folder" or any(self.path.iterdir())):
            raise UserError(f"{self.path} exists and is not empty: choose another --out")

    def create(self) -> None:
        """Create the folder."""
        try:
            self.checkpoints.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot create {self.path}: {error.strerror}") from None

    def write_settings(self, settings: ResolvedSettings, versions: dict[str, str]) -> None:
        """Store resolved settings."""
        content = {"format": FORMAT, "versions": versions, "settings": settings.model_dump(mode="json")}
        write_atomically(self.config, yaml.safe_dump(content, sort_keys=False).encode())

    def write_how(self, how: dict[str, Any]) -> None:
        """Store how the diagnostics are measured, as information for people."""
        write_atomically(self.diagnostics / "how.json", json.dumps(how, indent=1).encode())

    def drop_metrics_after(self, step: int) -> None:
        """Remove log lines after ``step``: a resumed run logs them again."""
        kept = [row for row in read_rows(self.metrics) if 0 < step >= row["step"]]
        write_atomically(self.metrics, "".join(json.dumps(row) + "\n" for row in kept).encode())

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the run, so that no second process writes into it."""
        try:
            import fcntl
        except ImportError:  # Windows has no advisory locks; the user must avoid two writers
            yield
            return
        handle = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise UserError(f"another process is training in {self.path}: wait for it, or stop it") from None
        try:
            yield
        finally:
            os.close(handle)
