"""The settings that the trials of ``--tune`` chose: by held-out training images, never by test labels."""

from collections.abc import Mapping
from typing import Any

from cacr.ledger.item import Place
from cacr.ledger.record import Ledger
from cacr.ledger.scales import Sheet


def choose(sheet: Sheet, ledger: Ledger) -> dict[Place, dict[str, Any]]:
    """The best settings of every place whose trials are all finished or failed.

    The first of equal ones is used. A place whose trials all failed has no choice.
    """
    chosen: dict[Place, dict[str, Any]] = {}
    for place, tried in sheet.trials.items():
        records = [(settings, cell, ledger.find(cell)) for settings, cell in tried]
        if any(record is None and not ledger.failure(cell) for _, cell, record in records):
            continue
        scores = [
            (score, settings)
            for settings, cell, record in records
            if record is not None and (score := record.score(str(cell.evaluation["protocol"][0]))) is not None
        ]
        if scores:
            chosen[place] = max(scores, key=lambda each: each[0])[1]
    return chosen


def chosen_in_words(chosen: Mapping[Place, Mapping[str, Any]]) -> list[str]:
    """One line per place."""
    return [
        f"{row}, {column}: " + " ".join(f"{name}={value}" for name, value in settings.items())
        for (row, column), settings in chosen.items()
    ]
