"""``held_out.json`` and ``indices.json``: the images that a run is trained on and measured on."""

import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from cacr.files import write_atomically
from cacr.reading.documents import read_json_if_any

Origin = Literal["test", "split", "training"]
Number = Annotated[int, Field(ge=0, lt=2**62)]


class Division(BaseModel):
    """The content of ``held_out.json``.

    Attributes:
        origin: ``test``: measured images are from the test part of the data. ``split``: from the data, and not
            trained on. ``training``: also trained on.
        images: numbers of the measured images, in the test part or in all images that could be trained on.
        not_trained_on: numbers of all images that are not trained on.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    origin: Origin = Field(alias="from")
    images: list[Number]
    not_trained_on: list[Number]


_DIVISION, _NUMBERS = TypeAdapter(Division), TypeAdapter(list[Number])
_HINT = "start the run again with another --out"


def write_division(path: Path, division: Division) -> None:
    """Store the split of a run."""
    write_atomically(path, json.dumps(division.model_dump(by_alias=True)).encode())


def read_division(path: Path) -> Division | None:
    """The split of a run; None if it is not stored.

    Raises:
        UserError: the file is damaged.
    """
    return read_json_if_any(path, _DIVISION, _HINT)


def write_kept(path: Path, numbers: list[int]) -> None:
    """Store the numbers of the images that an imbalance rule kept."""
    write_atomically(path, json.dumps(numbers).encode())


def read_kept(path: Path) -> list[int] | None:
    """Numbers of the images that an imbalance rule kept; None without a rule.

    Raises:
        UserError: the file is damaged.
    """
    return read_json_if_any(path, _NUMBERS, _HINT)
