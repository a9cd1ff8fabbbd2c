"""``held_out.json`` and ``indices.json``: which images a run is trained on and measured on."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from cacr.reading.documents import read_json_if_any

Origin = Literal["test", "split", "training"]
Number = Annotated[int, Field(ge=0, lt=2**62)]


class Division(BaseModel):
    """What ``held_out.json`` says.

    Attributes:
        origin: ``test``: measured images are of the data's own test part. ``split``: of the data, and not trained
            on. ``training``: images that are trained on too.
        images: numbers of the measured images, in the test part or in all images that could be trained on.
        not_trained_on: numbers of all images that are not trained on.
    """

    model_config = ConfigDict(frozen=True)

    origin: Origin = Field(alias="from")
    images: list[Number]
    not_trained_on: list[Number]


_DIVISION, _NUMBERS = TypeAdapter(Division), TypeAdapter(list[Number])
_HINT = "start the run again with another --out"


def read_division(path: Path) -> Division | None:
    """The division of a run; None where none is stored.

    Raises:
        UserError: the file is damaged.
    """
    return read_json_if_any(path, _DIVISION, _HINT)


def read_kept(path: Path) -> list[int] | None:
    """Numbers of the images that an imbalance rule kept; None where there was no rule.

    Raises:
        UserError: the file is damaged.
    """
    return read_json_if_any(path, _NUMBERS, _HINT)
