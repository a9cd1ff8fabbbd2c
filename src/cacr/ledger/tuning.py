"""The settings that the trials of ``--tune`` chose: by held-out training images, never by test labels."""

from collections.abc import Mapping
from typing import Any

from cacr.ledger.item import Place
from cacr.ledger.record import Choice, Ledger
from cacr.ledger.scales import Sheet, Trials


def choose(sheet: Sheet, ledger: Ledger) -> dict[Place, dict[str, Any]]:
    """The settings of every place that was decided, or whose trials are all finished or failed.

    A place whose trials all failed has no choice.
    """
    found = {place: _choice(tried, ledger) for place, tried in sheet.trials.items()}
    return {place: choice.settings for place, choice in found.items() if choice is not None}


def decide(sheet: Sheet, ledger: Ledger) -> None:
    """Store the choices, so that a failed trial that succeeds later cannot change what cells were run with."""
    for tried in sheet.trials.values():
        if (choice := _choice(tried, ledger)) is not None:
            ledger.decide([cell for _, cell in tried], choice)


def _choice(tried: Trials, ledger: Ledger) -> Choice | None:
    """What was decided, or the best of the trials; the first of equal ones. None: trials are missing, or all failed."""
    cells = [cell for _, cell in tried]
    if (known := ledger.decided(cells)) is not None:
        return known
    records = [(settings, cell, ledger.find(cell)) for settings, cell in tried]
    if any(record is None and not ledger.failure(cell) for _, cell, record in records):
        return None
    scores = {
        cell.digest: score
        for _, cell, record in records
        if record is not None and (score := record.score(str(cell.evaluation["protocol"][0]))) is not None
    }
    if not scores:
        return None
    best = max(scores, key=scores.__getitem__)
    return Choice(next(dict(settings) for settings, cell in tried if cell.digest == best), scores)


def chosen_in_words(chosen: Mapping[Place, Mapping[str, Any]]) -> list[str]:
    """One line per place."""
    return [f"{row}, {column}: {in_words(settings)}" for (row, column), settings in chosen.items()]


def in_words(settings: Mapping[str, Any]) -> str:
    """Settings as a command takes them."""
    return " ".join(f"{name}={value}" for name, value in settings.items())
