"""``reference.json``: curves of another run, drawn behind those of this run."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter

from cacr.files import printable
from cacr.reading.documents import parse_json, read_json_if_any


class Reference(BaseModel):
    """Curves with a name.

    Attributes:
        name: name of the curves.
        figures: (epoch, value) points of each metric.
    """

    model_config = ConfigDict(frozen=True)

    name: Annotated[str, AfterValidator(printable)]
    figures: dict[str, list[tuple[float, float]]]


_REFERENCE = TypeAdapter(Reference)
_HINT = 'it must be {"name": "...", "figures": {"knn": [[epoch, value], ...]}}, or be removed'


def parse_reference(text: str, what: str) -> Reference:
    """Curves from text; ``what`` is the start of an error message."""
    return parse_json(text, _REFERENCE, what)


def read_reference(path: Path) -> Reference | None:
    """The curves in a file; None if there is no file.

    Raises:
        UserError: the file has another content.
    """
    return read_json_if_any(path, _REFERENCE, _HINT)
