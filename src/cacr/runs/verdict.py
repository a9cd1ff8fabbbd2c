"""``verdict.json``: the current verdict on a run, and the earlier ones."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, TypeAdapter

from cacr.files import printable, write_atomically
from cacr.reading.documents import read_json_if_any
from cacr.runs.rows import MOST_STEPS, Count

Name = Literal[
    "healthy",
    "collapsed to a point",
    "dimensional collapse",
    "shrinking",
    "diverging",
    "not learning",
    "no better than before training",
    "worse than before training",
    "too few images",
    "starved by the loader",
    "not sure yet",
]

NO_VERDICT = (
    "there is no verdict: the run was too short, or was not measured, so it is not known whether it learns"
)

Epoch = Annotated[float, Field(ge=0, le=MOST_STEPS)]
Sentence = Annotated[str, AfterValidator(printable)]
"""Text that is shown: on one line, without control characters."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on a run.

    Attributes:
        verdict: the verdict in a few words.
        evidence: sentences with the numbers behind it.
        advice: what to try.
        step: number of optimiser steps so far.
        epoch: number of epochs so far.
    """

    verdict: Name
    evidence: list[Sentence]
    advice: list[Sentence]
    step: Count
    epoch: Epoch


@dataclass(frozen=True)
class Past:
    """A verdict without its reasons."""

    step: Count
    epoch: Epoch
    verdict: Name


@dataclass(frozen=True)
class StoredVerdict(Verdict):
    """The latest verdict.

    Attributes:
        history: all verdicts in order, including this one.
    """

    history: list[Past]


_STORED = TypeAdapter(StoredVerdict)


def read_verdict(path: Path) -> StoredVerdict | None:
    """The latest verdict; None if there is none yet.

    Raises:
        UserError: the file is damaged.
    """
    return read_json_if_any(path, _STORED, "remove it: the next measurement of the run writes it again")


def write_verdict(path: Path, verdict: Verdict) -> StoredVerdict:
    """Store a verdict after those of earlier steps; verdicts of later steps, before a resume, are removed.

    Returns:
        What was stored.
    """
    before = read_verdict(path)
    earlier = [past for past in before.history if past.step < verdict.step] if before else []
    now = Past(verdict.step, verdict.epoch, verdict.verdict)
    stored = StoredVerdict(
        verdict.verdict, verdict.evidence, verdict.advice, verdict.step, verdict.epoch, [*earlier, now]
    )
    write_atomically(path, json.dumps(asdict(stored), indent=1).encode())
    return stored


def in_words(verdict: Verdict) -> str:
    """A verdict as lines to print."""
    lines = [f"verdict at epoch {verdict.epoch:g}: {verdict.verdict}"]
    lines += [f"  {text}" for text in verdict.evidence]
    return "\n".join(lines + [f"  try: {text}" for text in verdict.advice])
