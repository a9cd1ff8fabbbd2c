"""A result of an evaluation, with everything that is needed to understand it."""

import json
import platform
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from hashlib import blake2b, file_digest
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from cacr.config import FORMAT
from cacr.errors import UserError
from cacr.files import check_format, write_atomically
from cacr.reading.documents import wrong_fields
from cacr.reading.files import read_bytes

Finite = Annotated[float, Field(allow_inf_nan=False)]
_NAME_BYTES = 60  # of the name of the data in a file name; file systems allow 255 in total


@dataclass(frozen=True)
class Result:
    """One evaluation.

    Attributes:
        protocol: How it was measured.
        subject: What was measured: ``encoder``, or the name of a baseline.
        score: In [0, 1]; the mean if there are several draws of labels.
        spread: Standard deviation over the draws; None without draws.
        data: Training data of the classifier.
        test_data: Its test data.
        split: Description of where the test images come from.
        labels_per_class: Labels used per class; None for all.
        counts: Numbers of training images, test images, classes, and unreadable images.
        settings: Settings of the protocol.
        seed: Seed of splits, draws and classifiers.
        details: Further results of the protocol.
        encoder: Name, width and so on of the encoder.
        training: The encoder's own summary of its training: images, views, steps.
        notes: Notes for the user on how the data was read.
        versions: Versions of the software.
        metric: Name of the score.
        also: Further metrics by name.
        locations: Paths of data and test data.
        weights: Fingerprint of the measured weights; for a baseline, those of the encoder.
        held_out: Whether the test images are a part of ``data`` chosen by the seed.
        assumptions: Assumptions about labels, which are normal in an evaluation.
        format: Format version of the file.
    """

    protocol: str
    subject: str
    score: Finite
    spread: Finite | None
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
    notes: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=lambda: versions())
    metric: str = "accuracy"
    also: dict[str, Finite] = field(default_factory=dict)
    locations: list[str] = field(default_factory=list)
    weights: str = ""
    held_out: bool = False
    assumptions: list[str] = field(default_factory=list)
    format: int = FORMAT

    @property
    def file_name(self) -> str:
        """``linear-digits-10-per-class-untrained-0c5fb2a1.json``: equal only for the same measurement.

        The digits at its end are a hash of everything else: data, settings, seed and metric.
        """
        names = dict.fromkeys(Path(data).name for data in (self.data, self.test_data))
        data = re.sub(r"[^\w.]+", "_", "-".join(names)).encode()[:_NAME_BYTES].decode(errors="ignore")
        parts = [self.protocol, data.strip("_")]
        if self.labels_per_class is not None:
            parts.append(f"{self.labels_per_class}-per-class")
        if self.subject != "encoder":
            parts.append(self.subject)
        where = [self.data, self.test_data, *self.locations]
        chosen = ["held out"] if self.held_out else []
        what = json.dumps([*where, self.settings, self.seed, self.metric, *chosen], sort_keys=True)
        digits = blake2b(what.encode(), digest_size=4).hexdigest()
        return "-".join([*parts, digits]) + ".json"

    @property
    def text(self) -> str:
        """``93.1 %``, or ``75.2 ± 1.8 %``."""
        spread = "" if self.spread is None else f" ± {100 * self.spread:.1f}"
        return f"{100 * self.score:.1f}{spread} %"

    @property
    def measures(self) -> dict[str, str]:
        """The score and all further metrics as text, by name."""
        return {self.metric: self.text} | {name: f"{100 * value:.1f} %" for name, value in self.also.items()}


def versions() -> dict[str, str]:
    """Versions of the software that a number may depend on."""
    packages = {name: version(name) for name in ("cacr", "torch", "numpy", "timm")}
    return {"python": platform.python_version(), **packages}


def fingerprint(weights: Path) -> str:
    """Sixteen digits that identify a weights file."""
    with weights.open("rb") as file:
        return file_digest(file, lambda: blake2b(digest_size=8)).hexdigest()


def write_result(folder: Path, result: Result) -> Path:
    """Write a result into a folder, replacing an earlier one of the same measurement."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot create {folder}: {error.strerror}") from None
    path = folder / result.file_name
    write_atomically(path, (json.dumps(asdict(result), indent=2) + "\n").encode())
    return path


def read_results(folder: Path) -> list[Result]:
    """The results in a folder, ordered by file name; files that are not results are ignored.

    Raises:
        UserError: a result was written by another version of cacr, is damaged, or cannot be read.
    """
    results = []
    for path in sorted(file for file in folder.glob("*.json") if file.is_file()):
        content = read_bytes(path)
        try:
            mark = _MARK.validate_json(content, strict=True)
        except ValidationError:
            continue
        check_format(mark.format, path)  # before the rest, because a newer format may have other fields
        try:
            results.append(_RESULT.validate_json(content, strict=True))
        except ValidationError as error:
            raise UserError(
                f"{path} is damaged: {wrong_fields(error)}; remove it, and evaluate the run again"
            ) from None
    return results


@dataclass(frozen=True)
class _Mark:
    """Fields that results of every version have, which distinguish them from other files."""

    protocol: str
    subject: str
    format: int


_MARK, _RESULT = TypeAdapter(_Mark), TypeAdapter(Result)


def shown_notes(results: Iterable[Result]) -> list[str]:
    """The notes of results, without repetitions."""
    return list(dict.fromkeys(note for result in results for note in result.notes))
