"""Check whether the files of a run are complete, its numbers are finite, and it fits into memory."""

from collections.abc import Callable, Iterator
from contextlib import suppress

from cacr.encoders import load_encoder
from cacr.errors import UserError
from cacr.runs.run import Run
from cacr.runs.verdict import NO_VERDICT, in_words
from cacr.shell import resume_command
from cacr.training.building.checkpoints import list_checkpoints, load_checkpoint
from cacr.training.dry_run import needed_memory


def examine_run(run: Run) -> Iterator[str]:
    """Lines that say whether the files of a run are complete and its numbers are finite."""
    settings = run.settings
    length = f"{settings.epochs} epochs" if settings.max_steps is None else f"{settings.max_steps:,} steps"
    yield f"run {run.path}: {settings.objective} on {settings.data}, {length}"
    with suppress(UserError):  # its data is elsewhere
        yield f"memory needed: {needed_memory(settings)}"
    wrong = [*_wrong_files(run)]
    found = list_checkpoints(run.folder.checkpoints)
    for step, path in found:
        try:
            load_checkpoint(path)
            yield f"checkpoint of step {step}: complete"
        except UserError as error:
            wrong.append(f"{error}; --resume uses the checkpoint before it")
    if not found:
        wrong.append("no checkpoint has been written yet; --resume starts from the beginning")
    if not run.digest:
        wrong.append(f"there is no encoder yet; continue with: {resume_command(run.path)}")
    yield from (f"wrong: {text}" for text in wrong)
    healthy = False
    with suppress(UserError):  # reported above
        if verdict := run.verdict:
            healthy = verdict.verdict == "healthy"
            yield in_words(verdict)
        else:
            yield NO_VERDICT
    with suppress(UserError):
        if rows := run.rows:
            yield f"last metrics, step {rows[-1]['step']}: loss {rows[-1].get('loss', 'unknown')}"
    if healthy and not wrong:
        yield "no problems found"


def _wrong_files(run: Run) -> Iterator[str]:
    """Problems of the files other than settings and checkpoints."""
    asked: list[Callable[[], object]] = [
        lambda: (run.t_pos, run.t_neg),
        lambda: run.has_encoder and load_encoder(run.path) and run.training,
        lambda: run.rows,
        lambda: run.verdict,
        lambda: run.division,
        lambda: run.kept,
        lambda: run.results,
        lambda: run.snapshots,
        lambda: run.pictures,
        lambda: run.reference,
    ]
    for ask in asked:
        try:
            ask()
        except UserError as error:
            yield str(error)
