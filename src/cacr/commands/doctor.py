"""``cacr doctor``: describe this machine, and check a run, an encoder or data."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from cacr.commands.doctor_data import after_data, describe_data
from cacr.commands.doctor_encoder import examine_encoder, names_encoder
from cacr.commands.doctor_machine import describe_machine
from cacr.commands.doctor_run import examine_run
from cacr.commands.doctor_speed import measure_speed, noise
from cacr.config import PretrainSettings
from cacr.data import inspect_source, open_source, prepare
from cacr.errors import UserError
from cacr.reporting.next_step import next_lines
from cacr.runs.folder import RunFolder
from cacr.runs.run import Run
from cacr.shell import shell_words
from cacr.training.dry_run import needed_memory


def examine(target: str | None, *, root: Path, images: str | None = None) -> Iterator[str]:
    """Lines about this machine, and about ``target`` if given: a run folder, an encoder or data."""
    yield from describe_machine()
    if target is None:
        yield from measure_speed(noise())
        yield f"what next? Try everything on handwritten digits: {shell_words('cacr', 'demo')}"
        yield f"or check your own images: {shell_words('cacr', 'doctor', 'FOLDER')}"
    elif RunFolder(Path(target)).holds_run:
        run = Run.open(Path(target))
        yield from examine_run(run)
        with suppress(UserError):  # damage is reported above
            yield from next_lines(run)
    elif names_encoder(target):
        yield from examine_encoder(target)
    else:
        yield from _examine_data(target, root, images)


def _examine_data(target: str, root: Path, images: str | None) -> Iterator[str]:
    source = open_source(target, root=root, images=images)
    found = inspect_source(source)
    yield from describe_data(found)
    if found.examined - len(found.unreadable) < 2:
        yield "too few readable images: training needs at least two"
        return
    with suppress(UserError):  # a part of the data that is not for training
        asked = PretrainSettings(data=target, data_root=root)
        yield f"memory for a run with default settings: {needed_memory(asked)}"
    yield from measure_speed(prepare(source, max_unreadable=1.0).source)
    where = ("--data-root", root) if root != PretrainSettings.model_fields["data_root"].default else ()
    chosen = ("--images", images) if images else ()
    yield from after_data(target, found, (*where, *chosen), rgb=source.channels == 3)
