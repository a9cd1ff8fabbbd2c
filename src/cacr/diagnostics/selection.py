"""Choose which encoder of a run to keep, without labels; reasons: ``docs/explanation/automatic-choices.md``."""

from collections.abc import Mapping, Sequence
from typing import Any

from cacr.encoders.files import WEIGHTS, reader_file
from cacr.encoders.head_file import HEAD1
from cacr.errors import UserError
from cacr.runs.folder import RunFolder
from cacr.runs.run import Run

_NEEDED = {"effective_rank", "uniformity"}


def worth(figures: Mapping[str, Any]) -> float:
    """How good the model is, without labels: how evenly its embeddings are spread."""
    return -float(figures["uniformity"])


def is_best(run: RunFolder, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the last measurement is better than all earlier ones, except the one before the first step.

    Args:
        run: folder of the best encoder so far.
        rows: lines of ``metrics.jsonl``, the last one with a measurement.
    """
    if rows[-1]["step"] == 0:
        return False
    *earlier, now = (worth(row) for row in rows if row.keys() >= _NEEDED and row["step"] > 0)
    return not (run.best / WEIGHTS).exists() or now > max(earlier, default=float("-inf"))


def drop_best_after(run: RunFolder, step: int) -> None:
    """Delete the best encoder if it is from a later step than a resumed run starts at: it may not be reached again."""
    kept = _measured(RunFolder(run.best))
    if not kept or kept["step"] > step:
        weights = run.best / WEIGHTS
        beside = (weights.with_suffix(".json"), reader_file(weights), weights.with_name(HEAD1))
        for path in (weights, *beside):
            path.unlink(missing_ok=True)


def describe_best(run: RunFolder) -> str | None:
    """One line on the best encoder compared with the last one; None if the last one is the best."""
    best, last = _measured(RunFolder(run.best)), _measured(run)
    if not best or not last or best["step"] == last["step"]:
        return None
    return (
        f"most evenly spread: the encoder after epoch {best['epoch']:g}, in {run.best} "
        f"(uniformity {best['uniformity']:.2f}; last encoder: {last['uniformity']:.2f})"
    )


def _measured(folder: RunFolder) -> dict[str, float]:
    """The measurements in an encoder's description; empty if there are none, or if it cannot be read."""
    try:
        return Run(folder).measured
    except UserError:
        return {}
