"""``verdict.json``: what is to be thought of a run, and what was thought of it before."""

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

Epoch = Annotated[float, Field(ge=0, le=MOST_STEPS)]
Sentence = Annotated[str, AfterValidator(printable)]
"""Text that is shown: on one line, and without what would steer a terminal."""


@dataclass(frozen=True)
class Verdict:
    """What is to be thought of a run.

    Attributes:
        verdict: in words.
        evidence: sentences with the figures that it rests on.
        advice: what to try.
        step: optimiser steps made.
        epoch: epochs made.
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
        history: all verdicts, the first one first, this one last.
    """

    history: list[Past]


_STORED = TypeAdapter(StoredVerdict)


def read_verdict(path: Path) -> StoredVerdict | None:
    """The latest verdict; None where nothing was judged yet.

    Raises:
        UserError: the file is damaged.
    """
    return read_json_if_any(path, _STORED, "remove it: the next measurement of the run writes another")


def write_verdict(path: Path, verdict: Verdict) -> StoredVerdict:
    """Store a verdict, after those of earlier steps; later ones, of a run that was resumed, are forgotten.

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
    """A verdict in lines to print."""
    lines = [f"verdict at epoch {verdict.epoch:g}: {verdict.verdict}"]
    lines += [f"  {text}" for text in verdict.evidence]
    return "\n".join(lines + [f"  try: {text}" for text in verdict.advice])
