"""What an encoder's description says about its training."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from cacr.errors import UserError
from cacr.reading.documents import wrong_fields
from cacr.runs.rows import Count

MEASURED = ("step", "epoch", "effective_rank", "alignment", "uniformity")
"""Figures of ``metrics.jsonl`` that are stored with every checkpoint and encoder."""


class Summary(BaseModel):
    """The ``training`` of an ``encoder.json``: what code asks of it, each None where the file does not say.

    Attributes:
        images: of the data.
        views: of each image.
        batch_size: images in a batch.
        epochs: that were planned.
        steps: that were made.
        finished: whether the run had come to its end.
        processes: that trained together.
        precision: of the numbers.
        diagnostics: what was last measured, see :data:`MEASURED`.
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
    """The summary, checked.

    Args:
        training: as the file has it.
        where: the file, for messages.

    Raises:
        UserError: a value is of another type.
    """
    try:
        return Summary.model_validate(training)
    except ValidationError as error:
        raise UserError(
            f"{where} is damaged: training: {wrong_fields(error)}; resume the run, which writes it anew"
        ) from None
