"""Read a run folder: each file is read and checked once, when it is first needed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from cacr.config import ResolvedSettings
from cacr.encoders import EncoderInfo
from cacr.encoders.files import WEIGHTS, read_info, weights_file
from cacr.files import printable
from cacr.reading.files import kind_of
from cacr.runs.budget import Budget, budget_of
from cacr.runs.config_file import StoredConfig, read_config
from cacr.runs.division import Division, read_division, read_kept
from cacr.runs.folder import RunFolder
from cacr.runs.reference import Reference, read_reference
from cacr.runs.result import Result, fingerprint, read_results
from cacr.runs.rows import Row, read_rows
from cacr.runs.snapshots import Pictures, Snapshot, read_pictures, read_snapshots
from cacr.runs.summary import MEASURED, Summary, summary_of
from cacr.runs.verdict import StoredVerdict, read_verdict

_LARGEST_DRAWN = 1e100


@dataclass(frozen=True)
class Run:
    """A run folder. This class is the only reader of its files.

    Every file is read when it is first needed, and not again: open the run again to see changes. A damaged file, or a
    file of another version, raises a :class:`UserError` with its name and what to do.

    Attributes:
        folder: the run folder.
        name: its name among other runs; safe to print.
    """

    folder: RunFolder
    name: str = ""

    @classmethod
    def open(cls, path: Path) -> "Run":
        """The run in a folder.

        Raises:
            UserError: it is not a run folder.
        """
        folder = RunFolder(path)
        folder.require_run()
        return cls(folder, printable(path.resolve().name))

    @property
    def path(self) -> Path:
        """The folder."""
        return self.folder.path

    @cached_property
    def _config(self) -> StoredConfig:
        return read_config(self.folder.config)

    @property
    def settings(self) -> ResolvedSettings:
        """The settings as they were resolved when the run started."""
        return self._config.settings

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the software of the training."""
        return self._config.versions

    @property
    def learned(self) -> dict[str, Any]:
        """All settings that influence the result: runs in which they are equal differ only in the seed."""
        return self._config.learned

    @property
    def t_pos(self) -> float:
        """t+ of the weights pi+."""
        return self._config.t_pos

    @property
    def t_neg(self) -> float:
        """t- of the weights pi-."""
        return self._config.t_neg

    @property
    def weighing(self) -> tuple[float, float]:
        """t+ and t- with the signs by which the objective weighs: 0 for equal weights, negative for flipped ones."""
        return self._config.weighing

    @property
    def has_encoder(self) -> bool:
        """Whether there is a description of an encoder."""
        return kind_of(self._described) is not None

    @property
    def _described(self) -> Path:
        return (self.path / WEIGHTS).with_suffix(".json")

    @cached_property
    def _description(self) -> EncoderInfo:
        return read_info(self._described)

    @property
    def info(self) -> EncoderInfo:
        """Description of the encoder; fails if there are no weights."""
        weights_file(self.path)
        return self._description

    @cached_property
    def training(self) -> Summary:
        """The part of the encoder's description about its training."""
        return summary_of(self._description.training, self._described)

    @property
    def measured(self) -> dict[str, float]:
        """The last measurement of the encoder, :data:`MEASURED`; empty if it is not complete."""
        found = self.training.diagnostics
        return found if all(name in found for name in MEASURED) else {}

    @cached_property
    def budget(self) -> Budget:
        """The training budget of the run.

        Raises:
            UserError: the encoder's description has none.
        """
        return budget_of(self.info.training, self.settings.accumulate, self._described)

    @property
    def digest(self) -> str:
        """Fingerprint of the encoder's weights, as in results; empty if there are none."""
        file = self.path / WEIGHTS
        return fingerprint(file) if kind_of(file) == "file" else ""

    @cached_property
    def rows(self) -> list[Row]:
        """All logged metrics, in order."""
        return read_rows(self.folder.metrics)

    def points(self, figure: str) -> list[tuple[float, float]]:
        """(epoch, value) of a metric where it was logged; values too large to draw are left out."""
        found = ((row["epoch"], row[figure]) for row in self.rows if figure in row and "epoch" in row)
        return [(epoch, value) for epoch, value in found if not abs(value) > _LARGEST_DRAWN]

    @property
    def results_folder(self) -> Path:
        """Folder in which ``cacr evaluate`` writes results and their pictures."""
        return self.folder.evaluation

    @cached_property
    def results(self) -> list[Result]:
        """The results of ``cacr evaluate``."""
        return read_results(self.results_folder)

    @property
    def current_results(self) -> list[Result]:
        """Those of the present weights: a run that continued has results of earlier ones too."""
        digest = self.digest
        return [result for result in self.results if result.weights in ("", digest)]

    @cached_property
    def verdict(self) -> StoredVerdict | None:
        """The verdict of the diagnostics, with its history; None if there is none yet."""
        return read_verdict(self.folder.verdict)

    @cached_property
    def division(self) -> Division | None:
        """Which images are measured, and which are not trained on; None if it is not stored."""
        return read_division(self.folder.held_out)

    @cached_property
    def kept(self) -> list[int] | None:
        """Numbers of the images that an imbalance rule kept; None without a rule."""
        return read_kept(self.folder.indices)

    @cached_property
    def snapshots(self) -> list[Snapshot]:
        """Embeddings of one batch at a few epochs, in order."""
        return read_snapshots(self.folder.diagnostics)

    @cached_property
    def pictures(self) -> Pictures | None:
        """Small pictures of that batch; None if there are none."""
        return read_pictures(self.folder.diagnostics)

    @cached_property
    def reference(self) -> Reference | None:
        """Curves to draw behind those of the run; None if there are none."""
        return read_reference(self.folder.reference)


def run_of(weights: Path) -> Run | None:
    """The run of a weights file in its folder, or in its ``best/`` or ``start/``; None for other files."""
    folder = RunFolder(weights.parent)
    inside = RunFolder(weights.parent.parent)
    if not folder.holds_run and weights.parent in (inside.best, inside.start):
        folder = inside
    return Run.open(folder.path) if folder.holds_run and weights.name == WEIGHTS else None


def open_runs(paths: Sequence[Path], names: Sequence[str] | None = None) -> list[Run]:
    """Open runs with distinct names: if two folders have the same name, the names of their parents are added.

    Args:
        paths: run folders.
        names: names of the runs; default: those of their folders.

    Raises:
        UserError: one of them is not a run folder.
    """
    runs = [Run.open(path) for path in paths]
    if names is not None:
        return [Run(run.folder, printable(name)) for run, name in zip(runs, names, strict=True)]
    found = [run.name for run in runs]
    return [
        run
        if found.count(run.name) == 1
        else Run(run.folder, printable(f"{run.path.resolve().parent.name}-{run.name}"))
        for run in runs
    ]
