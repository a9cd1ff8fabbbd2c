"""The part of an encoder's description about its training."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from cacr.errors import UserError
from cacr.reading.documents import wrong_fields
from cacr.runs.rows import Count

MEASURED = ("step", "epoch", "effective_rank", "alignment", "uniformity")
"""Metrics of ``metrics.jsonl`` that are stored with every checkpoint and encoder."""


class Summary(BaseModel):
    """The ``training`` part of an ``encoder.json``; values that the file does not have are None.

    Attributes:
        images: number of images of the data.
        views: views per image.
        batch_size: images per batch.
        epochs: planned number of epochs.
        steps: number of steps so far.
        finished: whether the run was finished.
        processes: number of processes.
        precision: precision of the numbers.
        diagnostics: the last measurement, see :data:`MEASURED`.
    """

    model_config = ConfigDict(strict=True, frozen=True)

    images: Count | None = None
    views: Count | None = None
    batch_size: Count | None = None
    epochs: Count | None = None
    steps: Count | None = None
    finished: bool | None = None
    processes: Count | None = None
    precision: str | None = None
    diagnostics: dict[str, float] = {}


def summary_of(training: dict[str, Any], where: Path) -> Summary:
    """Check and return the summary.

    Args:
        training: content of the file.
        where: the file, for messages.

    Raises:
        UserError: a value has a wrong type.
    """
    try:
        return Summary.model_validate(training)
    except ValidationError as error:
        raise UserError(
            f"{where} is damaged: training: {wrong_fields(error)}; resume the run, which writes it again"
        ) from None
