"""``verdict.json``: the latest verdict of a run, and all verdicts before it."""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from cacr.diagnostics.verdict import Verdict
from cacr.files import write_atomically
from cacr.runs.folder import RunFolder

_KEYS = {*(item.name for item in fields(Verdict)), "history"}


def write_verdict(run: RunFolder, verdict: Verdict) -> dict[str, Any]:
    """Store a verdict, after those of earlier steps; later ones, of a run that was resumed, are forgotten.

    Returns:
        What was stored.
    """
    now = {"step": verdict.step, "epoch": verdict.epoch, "verdict": verdict.verdict}
    earlier = [past for past in read_history(run) if past["step"] < verdict.step]
    content = asdict(verdict) | {"history": [*earlier, now]}
    write_atomically(run.verdict, json.dumps(content, indent=1).encode())
    return content


def read_history(run: RunFolder) -> list[dict[str, Any]]:
    """All verdicts of a run, the first one first."""
    content = read_verdict(run)
    return [] if content is None else content["history"]


def read_verdict(run: RunFolder) -> dict[str, Any] | None:
    """The latest verdict, or None where there is none that can be read."""
    with contextlib.suppress(OSError, ValueError):
        content = json.loads(run.verdict.read_text(encoding="utf-8"))
        if isinstance(content, dict) and content.keys() >= _KEYS:
            return content
    return None


def in_words(verdict: Mapping[str, Any]) -> str:
    """A verdict, as it is stored, in lines to print."""
    lines = [f"verdict at epoch {verdict['epoch']:g}: {verdict['verdict']}"]
    lines += [f"  {text}" for text in verdict["evidence"]]
    return "\n".join(lines + [f"  try: {text}" for text in verdict["advice"]])
