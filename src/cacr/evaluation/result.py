"""A number together with everything that is needed to understand it."""

import json
import platform
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.table import Table

from cacr.config import FORMAT
from cacr.errors import UserError
from cacr.files import check_format, write_atomically


@dataclass(frozen=True)
class Result:
    """One evaluation.

    Attributes:
        protocol: How it was measured.
        subject: What was measured: ``encoder``, or the name of a baseline.
        score: In [0, 1]; with several draws of the labels their mean.
        spread: Standard deviation over the draws; None without draws.
        data: What the classifier learned from.
        test_data: What it was judged on.
        split: Where the test images came from, in words.
        labels_per_class: Labels used of each class; None for all.
        counts: Of training images, test images, classes, and images that could not be read.
        settings: Of the protocol.
        seed: Of splits, draws and classifiers.
        details: What the protocol tells beside the score.
        encoder: Name, width and so on of what was measured.
        training: The encoder's own summary of its training: images, views, steps.
        versions: Of the software that measured.
        metric: What the score is.
        format: Version of the file.
    """

    protocol: str
    subject: str
    score: float
    spread: float | None
    data: str
    test_data: str
    split: str
    labels_per_class: int | None
    counts: dict[str, int]
    settings: dict[str, Any]
    seed: int
    details: dict[str, Any]
    encoder: dict[str, Any]
    training: dict[str, Any]
    versions: dict[str, str] = field(default_factory=lambda: versions())
    metric: str = "accuracy"
    format: int = FORMAT

    @property
    def file_name(self) -> str:
        """``knn-cifar10.json``; ``linear-digits-10-per-class-untrained.json``."""
        data = Path(self.data).name if self.test_data == self.data else f"{self.data}-{self.test_data}"
        parts = [self.protocol, re.sub(r"[^\w.]+", "_", data).strip("_")]
        if self.labels_per_class is not None:
            parts.append(f"{self.labels_per_class}-per-class")
        if self.subject != "encoder":
            parts.append(self.subject)
        return "-".join(parts) + ".json"

    @property
    def text(self) -> str:
        """``93.1 %``, or ``75.2 ± 1.8 %``."""
        spread = "" if self.spread is None else f" ± {100 * self.spread:.1f}"
        return f"{100 * self.score:.1f}{spread} %"


def versions() -> dict[str, str]:
    """Versions of what a number may depend on."""
    packages = {name: version(name) for name in ("cacr", "torch", "numpy", "timm")}
    return {"python": platform.python_version(), **packages}


def write_result(folder: Path, result: Result) -> Path:
    """Write a result into a folder, in place of an earlier one of the same kind."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / result.file_name
    write_atomically(path, (json.dumps(asdict(result), indent=2) + "\n").encode())
    return path


def read_results(folder: Path) -> list[Result]:
    """The results in a folder, ordered by file name; a newer format is refused."""
    results = []
    for path in sorted(folder.glob("*.json")):
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            check_format(values.get("format"), path)
            results.append(Result(**values))
        except (ValueError, TypeError, AttributeError) as error:
            raise UserError(f"{path} is not a result of cacr evaluate: {error}") from None
    return results


def results_table(results: Sequence[Result]) -> Table:
    """Results as a table: a line for each protocol and number of labels, a column for each subject."""
    subjects = list(dict.fromkeys(result.subject for result in results))
    lines = list(dict.fromkeys((result.protocol, result.labels_per_class) for result in results))
    scores = {(result.protocol, result.labels_per_class, result.subject): result.text for result in results}
    splits = dict.fromkeys(result.split for result in results)
    table = Table(caption="judged on " + "; ".join(splits) if results else None)
    for heading in ("protocol", "labels"):
        table.add_column(heading)
    for subject in subjects:
        table.add_column(subject, justify="right")
    for protocol, labels in lines:
        used = "all" if labels is None else f"{labels} a class"
        table.add_row(protocol, used, *(scores.get((protocol, labels, subject), "") for subject in subjects))
    return table
