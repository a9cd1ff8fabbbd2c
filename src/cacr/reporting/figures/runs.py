"""What figures need to know of a run."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cacr.config import PretrainSettings
from cacr.evaluation import Result, read_results
from cacr.losses import OBJECTIVES
from cacr.runs.folder import RunFolder

T_POS, T_NEG = 1.0, 2.0
"""The paper's, for objectives that have none of their own."""


@dataclass(frozen=True)
class Run:
    """A run folder, read.

    Attributes:
        folder: where it is.
        name: the folder's name, with its parent's where two runs have the same.
        settings: resolved.
        rows: of ``metrics.jsonl``.
        results: of ``cacr evaluate``.
    """

    folder: RunFolder
    name: str
    settings: PretrainSettings
    rows: list[dict[str, Any]]
    results: list[Result]

    def points(self, figure: str) -> list[tuple[float, float]]:
        """(epoch, value) of a figure, wherever it was logged."""
        return [(row["epoch"], row[figure]) for row in self.rows if figure in row and "epoch" in row]

    def option(self, name: str, default: float) -> float:
        """An option of the objective: as set, as the objective has it, or ``default`` where it has none."""
        known = inspect.signature(OBJECTIVES[self.settings.objective]).parameters
        own = known[name].default if name in known else default
        return float(self.settings.objective_options.get(name, own))

    @property
    def t_pos(self) -> float:
        """t+ of the weights pi+."""
        return self.option("t_pos", T_POS)

    @property
    def t_neg(self) -> float:
        """t- of the weights pi-."""
        return self.option("t_neg", T_NEG)


def read_runs(paths: Sequence[Path]) -> list[Run]:
    """Read run folders.

    Raises:
        UserError: one of them is none.
    """
    names = [path.resolve().name for path in paths]
    runs = []
    for path, name in zip(paths, names, strict=True):
        folder = RunFolder(path)
        settings = folder.read_settings()
        unique = name if names.count(name) == 1 else f"{path.resolve().parent.name}-{name}"
        runs.append(Run(folder, unique, settings, folder.read_metrics(), read_results(folder.evaluation)))
    return runs
