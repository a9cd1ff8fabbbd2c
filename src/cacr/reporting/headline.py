"""The headline of a report: what the numbers of a run mean, in a sentence or two."""

from collections.abc import Sequence
from typing import NamedTuple

from cacr.reporting.standings import Gain, Standing, gain, labels_text, standings
from cacr.runs.result import Result
from cacr.runs.run import Run

NAMES = {
    "start": "the weights that it started from",
    "untrained": "the same network untrained",
    "scratch": "the same network from scratch",
    "pixels": "the raw pixels",
}
_REFERENCES = ("start", "untrained", "scratch", "pixels")
_FIRST = ("linear", "knn", "fewshot")
_PROTOCOLS = {
    "linear": "a linear classifier on its features",
    "knn": "the nearest images (kNN)",
    "fewshot": "a classifier trained on few labels",
    "detection": "a detector trained on it",
    "segmentation": "a Mask R-CNN trained on it",
}
_OF_VERDICT = {
    "healthy": "The run looks healthy: its features are better than before training.",
    "collapsed to a point": "The run has failed: all images look the same to the encoder.",
    "dimensional collapse": "The run has a problem: its embeddings vary in very few dimensions.",
    "not learning": "The run has not learned: two views of one image are as different as two images.",
    "diverging": "The run has failed: its loss diverged.",
    "starved by the loader": "The run learns, but spends much of the time waiting for images.",
    "shrinking": "The run has a problem: its embeddings come closer and closer together.",
    "no better than before training": "The training did not help: features are as good as before training.",
    "worse than before training": "The training did harm: features were better before training.",
    "too few images": "The quality of this run is unknown: there are too few images to measure.",
    "not sure yet": "It is not clear yet whether features are better than before training.",
}
_NOT_EVALUATED = "The encoder has not been evaluated, so the quality of its features is unknown."


class Headline(NamedTuple):
    """What the numbers mean in a few words, and the numbers."""

    title: str
    text: str


def headline(run: Run) -> Headline:
    """Summarise a run: from the results of its encoder, or else from the verdict."""
    if measured := headline_of(run.current_results):
        return measured
    if run.verdict is None:
        return Headline("Nothing has been measured yet.", _NOT_EVALUATED)
    name = run.verdict.verdict
    return Headline(_OF_VERDICT.get(name, f"The verdict on the training: {name}."), _NOT_EVALUATED)


def headline_of(results: Sequence[Result]) -> Headline | None:
    """Summarise the results of one encoder and its baselines; None without results of the encoder."""
    found = _ranked(results)
    return _of_results(found) if found else None


def _ranked(results: Sequence[Result]) -> list[Standing]:
    """Measurements of the encoder, the most informative first."""
    return sorted((s for s in standings(results) if "encoder" in s.of), key=_rank)


def _rank(standing: Standing) -> tuple[bool, int, bool]:
    """Sort key: measurements with a baseline first, then by how informative the protocol is, then test images."""
    protocol = standing.any.protocol
    place = _FIRST.index(protocol) if protocol in _FIRST else len(_FIRST)
    return _reference(standing) is None, place, standing.any.held_out


def _reference(standing: Standing) -> str | None:
    """The baseline that shows whether the training was useful."""
    return next((name for name in _REFERENCES if name in standing.of), None)


def outcome(run: Run) -> str | None:
    """``better``, ``worse`` or ``equal`` compared with the baseline of the headline; None if nothing was compared."""
    found = _ranked(run.current_results)
    reference = _reference(found[0]) if found else None
    return gain(found[0].of["encoder"], found[0].of[reference]).outcome if reference else None


def _of_results(found: Sequence[Standing]) -> Headline:
    first, reference = found[0], _reference(found[0])
    own = first.of["encoder"]
    others = [f"{first.of[name].text} for {NAMES[name]}" for name in _REFERENCES if name in first.of]
    if (classes := own.counts.get("classes", 0)) > 1 and own.metric == "accuracy":
        others.append(f"{100 / classes:.1f} % by guessing")
    how = f"{_PROTOCOLS.get(own.protocol, own.protocol)} ({labels_text(own)})"
    against = f", compared with {_listed(others)}" if others else ""
    text = f"Measured by {how}: {own.text} {own.metric}{against}."
    if reference is None:
        return Headline(f"It reaches {own.text}; there is no baseline to compare with.", text)
    main = gain(own, first.of[reference])
    if main.doubt is not None:
        text += f" Differences of up to {main.doubt:.1f} points may be chance."
    more = _disagreeing(found[1:], reference, main.outcome)
    return Headline(_title(main, reference) + _but_pixels(first, reference, main), " ".join([text, *more]))


def _title(main: Gain, reference: str) -> str:
    if main.outcome == "equal":
        return f"No clear difference from {NAMES[reference]}: {main.points:+.1f} points."
    if main.doubt is None:
        word = "Above" if main.points > 0 else "Below"
        return f"{word} {NAMES[reference]} by {abs(main.points):.1f} points, which may be chance."
    return f"{main.outcome.capitalize()} than {NAMES[reference]}, by {abs(main.points):.1f} points."


def _but_pixels(standing: Standing, reference: str, main: Gain) -> str:
    """What the title has to add if raw pixels do as well as an encoder that is better than its reference."""
    if main.outcome != "better" or reference == "pixels" or "pixels" not in standing.of:
        return ""
    difference = gain(standing.of["encoder"], standing.of["pixels"])
    if difference.outcome == "better":
        return ""
    if difference.outcome == "worse":
        return f" But worse than {NAMES['pixels']}, by {abs(difference.points):.1f} points."
    return f" But no clear difference from {NAMES['pixels']}: {difference.points:+.1f} points."


def _listed(parts: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _disagreeing(others: Sequence[Standing], reference: str, outcome: str) -> list[str]:
    """Other protocols with a different outcome."""
    compared = [s for s in others if reference in s.of]
    different = [
        f"{s.any.protocol} ({labels_text(s.any)}) says {judged}"
        for s in compared
        if (judged := gain(s.of["encoder"], s.of[reference]).outcome) != outcome
    ]
    return [f"Not all measurements agree: {', '.join(different)}."] if different else []
