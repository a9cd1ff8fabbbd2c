"""The settings that the trials of ``--tune`` chose: by held-out training images, never by test labels."""

from collections.abc import Mapping
from typing import Any

from cacr.ledger.cell import Cell
from cacr.ledger.item import Place
from cacr.ledger.record import Choice, Ledger
from cacr.ledger.scales import Sheet, Trials

WORST = 0.0
"""Score of a trial whose training diverged: its settings were tried, and are the worst."""


def choose(sheet: Sheet, ledger: Ledger) -> dict[Place, dict[str, Any]]:
    """The settings of every place that was decided, or whose trials were all tried."""
    found = {place: _choice(tried, ledger) for place, tried in sheet.trials.items()}
    return {place: choice.settings for place, choice in found.items() if choice is not None}


def decide(sheet: Sheet, ledger: Ledger) -> None:
    """Store the choices, so that a trial that is run again cannot change what cells were run with."""
    for tried in sheet.trials.values():
        if (choice := _choice(tried, ledger)) is not None:
            ledger.decide([cell for _, cell in tried], choice)


def _choice(tried: Trials, ledger: Ledger) -> Choice | None:
    """What was decided, or the best of the trials; the first of equal ones.

    Every method has the same number of trials only if all of them count: None if one is missing or failed, unless its
    training diverged, or if all diverged.
    """
    cells = [cell for _, cell in tried]
    if (known := ledger.decided(cells)) is not None:
        return known
    scores: dict[str, float] = {}
    for cell in cells:
        if (record := ledger.find(cell)) is not None:
            score = record.score(str(cell.evaluation["protocol"][0]))
        else:
            score = WORST if _diverged(cell, ledger) else None
        if score is None:
            return None
        scores[cell.digest] = score
    if all(ledger.find(cell) is None for cell in cells):
        return None
    best = max(scores, key=scores.__getitem__)
    return Choice(next(dict(settings) for settings, cell in tried if cell.digest == best), scores)


def _diverged(cell: Cell, ledger: Ledger) -> bool:
    failure = ledger.failure(cell)
    return failure is not None and failure.kind == "diverged"


def why_undecided(tried: Trials, ledger: Ledger) -> str:
    """Why trials have not decided, for a table."""
    waiting = [cell for _, cell in tried if ledger.find(cell) is None and not _diverged(cell, ledger)]
    if not waiting:
        return "the training diverged in every trial, so there are no settings to choose"
    failed = sum(ledger.failure(cell) is not None for cell in waiting)
    again = f" ({failed} failed; the next command tries them again)" if failed else ""
    return f"{len(waiting)} of {len(tried)} trials that choose settings are not finished{again}"


def chosen_in_words(chosen: Mapping[Place, Mapping[str, Any]]) -> list[str]:
    """One line per place."""
    return [f"{row}, {column}: {in_words(settings)}" for (row, column), settings in chosen.items()]


def in_words(settings: Mapping[str, Any]) -> str:
    """Settings as a command takes them."""
    return " ".join(f"{name}={value}" for name, value in settings.items())
