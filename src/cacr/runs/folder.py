"""A run is a folder: what lies where, and who may write; what is in the files, :class:`cacr.runs.run.Run` knows."""

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
        """One JSON object a line: every figure ever logged."""
        return self.path / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        """The last two states of the training."""
        return self.path / "checkpoints"

    @property
    def evaluation(self) -> Path:
        """One JSON file for each result."""
        return self.path / "evaluation"

    @property
    def report(self) -> Path:
        """The page."""
        return self.path / "report.html"

    @property
    def unreadable(self) -> Path:
        """Files that were skipped, and why."""
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
        """Curves of another run to draw behind this one's, put here by somebody."""
        return self.path / "reference.json"

    @property
    def verdict(self) -> Path:
        """The verdict in words, with its evidence and its history."""
        return self.path / "verdict.json"

    @property
    def best(self) -> Path:
        """The encoder that the diagnostics, which see no labels, would keep; a folder like that of a run."""
        return self.path / "best"

    @property
    def start(self) -> Path:
        """The encoder as it was before the first step; a folder like that of a run."""
        return self.path / "start"

    @property
    def holds_run(self) -> bool:
        """Whether a run was begun here."""
        return kind_of(self.config) is not None

    def require_run(self) -> None:
        """Refuse a folder that holds no run."""
        if not self.holds_run:
            raise UserError(f"{self.path} is not a run folder (it has no config.yaml)")

    def require_new(self) -> None:
        """Refuse a folder that holds anything."""
        if self.holds_run:
            raise UserError(
                f"{self.path} already holds a run: continue it with --resume, or choose another --out"
            )
        kind = kind_of(self.path)
        if kind is not None and (kind != "folder" or any(self.path.iterdir())):
            raise UserError(f"{self.path} exists and is not empty: choose another --out")

    def create(self) -> None:
        """Make the folder."""
        try:
            self.checkpoints.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot create {self.path}: {error.strerror}") from None

    def write_settings(self, settings: ResolvedSettings, versions: dict[str, str]) -> None:
        """Store resolved settings."""
        content = {"format": FORMAT, "versions": versions, "settings": settings.model_dump(mode="json")}
        write_atomically(self.config, yaml.safe_dump(content, sort_keys=False).encode())

    def write_how(self, how: dict[str, Any]) -> None:
        """Say how the diagnostics are measured, for people: nobody reads it back."""
        write_atomically(self.diagnostics / "how.json", json.dumps(how, indent=1).encode())

    def drop_metrics_after(self, step: int) -> None:
        """Forget what was logged after ``step``: a resumed run logs it again, and from the start all of it."""
        kept = [row for row in read_rows(self.metrics) if 0 < step >= row["step"]]
        write_atomically(self.metrics, "".join(json.dumps(row) + "\n" for row in kept).encode())

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run so that no second process writes into it."""
        try:
            import fcntl
        except ImportError:  # Windows: no advisory locks; two writers are the user's own care there
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
