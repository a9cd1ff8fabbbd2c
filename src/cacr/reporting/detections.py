"""Detections on the test images, for the report."""

from base64 import b64encode
from pathlib import Path
from typing import Any

from cacr.errors import UserError
from cacr.files import printable
from cacr.reading.files import read_bytes
from cacr.reporting.results import per_class
from cacr.runs.result import Result
from cacr.runs.run import Run

MOST_BYTES = 4 * 2**20
"""Largest size of a picture on the page, in bytes."""

_JPEG = b"\xff\xd8\xff"


def detections_of(run: Run) -> list[dict[str, Any]]:
    """Title, picture (a data URI, or empty) and scores per class of every detector of a run."""
    return [_shown(run.results_folder, result) for result in run.results if per_class(result)]


def _shown(folder: Path, result: Result) -> dict[str, Any]:
    return {
        "title": printable(
            f"{result.protocol}, {result.subject}, {Path(result.test_data).name}, seed {result.seed}"
        ),
        "metric": printable(result.metric),
        "source": _picture(folder, result.details.get("pictures")),
        "classes": [[printable(name), f"{100 * v:.1f} %"] for name, v in per_class(result).items()],
    }


def _picture(folder: Path, name: object) -> str:
    """A JPEG next to the result, by its plain file name; anything else is not shown."""
    if not isinstance(name, str) or Path(name).name != name:
        return ""
    try:
        content = read_bytes(folder / name, MOST_BYTES)
    except UserError:
        return ""
    return f"data:image/jpeg;base64,{b64encode(content).decode()}" if content.startswith(_JPEG) else ""
