"""Captions in the report: confused ones, and how images weight them."""

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from cacr.files import printable
from cacr.frameworks import FRAMEWORKS
from cacr.runs.result import Result

PROTOCOL = "captions"


class _Confused(BaseModel):
    model_config = ConfigDict(strict=True)

    caption: str
    taken_for: str


class _Negative(BaseModel):
    model_config = ConfigDict(strict=True)

    caption: str
    weight: float


class _Weighed(BaseModel):
    model_config = ConfigDict(strict=True)

    caption: str
    cosine: float
    most: list[_Negative]


class _Details(BaseModel):
    """The parts of a result of the protocol captions that are used here."""

    confused: list[_Confused]
    weights: list[_Weighed]


def reads_captions(framework: str) -> bool:
    """Whether the framework compares images with captions, not with each other."""
    return framework in FRAMEWORKS and FRAMEWORKS[framework].reads_captions


def caption_facts(results: list[Result]) -> dict[str, Any] | None:
    """Rows of two tables, from the last measurement of the protocol captions; None if there is none."""
    measured = [result for result in results if result.protocol == PROTOCOL and result.subject == "encoder"]
    if not measured:
        return None
    try:
        details = _Details.model_validate(measured[-1].details)
    except ValidationError:
        return None
    return {
        "data": printable(measured[-1].split),
        "confused": [[printable(row.caption), printable(row.taken_for)] for row in details.confused],
        "weights": [
            [
                printable(row.caption),
                f"{row.cosine:.2f}",
                "; ".join(f"{printable(each.caption)} (x {each.weight:.1f})" for each in row.most),
            ]
            for row in details.weights
        ],
    }
