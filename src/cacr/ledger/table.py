"""An item as a Markdown table: scores with their spread, the paper's numbers, claims, and missing cells."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from cacr.ledger.cell import Cell
from cacr.ledger.claims import Judged, judge
from cacr.ledger.item import Column, Item, Place
from cacr.ledger.record import Ledger, Record
from cacr.ledger.scales import MINI, OURS, Match, Scale, Sheet, columns_at, rows_at, trials_of
from cacr.ledger.tuning import chosen_in_words, in_words, why_undecided

REFERENCES = {"untrained": "before training", "pixels": "raw pixels"}

FREE = ("seed", "workers")
"""Settings in which trainings that differ only in the seed may differ."""


@dataclass(frozen=True)
class Filled:
    """The results of an item.

    Attributes:
        sheet: the cells that are known.
        chosen: settings that trials have chosen, by place.
        scores: place -> seed -> score in the unit of the item.
        records: place -> seed -> record.
        missing: cells without a record.
        undecided: places whose trials have not chosen their settings yet, and why.
        failed: why cells failed, trials included.
        judged: the claims.
    """

    sheet: Sheet
    chosen: Mapping[Place, Mapping[str, Any]]
    scores: dict[Place, dict[int, float]]
    records: dict[Place, dict[int, Record]]
    missing: list[Cell]
    undecided: dict[Place, str]
    failed: dict[str, str]
    judged: list[Judged]


def fill(item: Item, sheet: Sheet, ledger: Ledger, chosen: Mapping[Place, Mapping[str, Any]]) -> Filled:
    """Collect the records of an item; each is read once."""
    scores: dict[Place, dict[int, float]] = {}
    records: dict[Place, dict[int, Record]] = {}
    resolutions: dict[Place, float] = {}
    missing: list[Cell] = []
    failed: dict[str, str] = {}
    columns = {column.name: column for column in item.columns}

    def look_up(cell: Cell, what: str) -> Record | None:
        record = ledger.find(cell)
        if record is None:
            missing.append(cell)
            if failure := ledger.failure(cell):
                failed[what] = failure.why
        return record

    for (place, seed), cell in sheet.cells.items():
        if (record := look_up(cell, f"{place[0]}, {place[1]}, seed {seed}")) is None:
            continue
        records.setdefault(place, {})[seed] = record
        if (value := value_of(item, columns[place[1]], cell, record)) is not None:
            scores.setdefault(place, {})[seed] = value
        if images := record.test_images.get(_score_name(columns[place[1]], cell)):
            resolutions[place] = max(100 / images, resolutions.get(place, 0.0))
    for (column, seed), cell in sheet.references.items():
        if (record := look_up(cell, f"before training, {column}, seed {seed}")) is None:
            continue
        for subject, name in REFERENCES.items():
            if (value := value_of(item, columns[column], cell, record, subject)) is not None:
                scores.setdefault((name, column), {})[seed] = value
    for place, tried in sheet.trials.items():
        for settings, cell in tried:
            if failure := ledger.failure(cell):
                failed[f"trial of {place[0]}, {place[1]} with {in_words(settings)}"] = failure.why
    undecided = {place: why_undecided(sheet.trials[place], ledger) for place in sheet.undecided()}
    judged = [
        judge(claim, _last_values(records, claim.curve)) if claim.curve else judge(claim, scores, resolutions)
        for claim in item.claims
    ]
    return Filled(sheet, chosen, scores, records, missing, undecided, failed, judged)


def _last_values(records: Mapping[Place, Mapping[int, Record]], curve: str) -> dict[Place, dict[int, float]]:
    """Place -> seed -> the last value of a metric of the training; probes in percent, as the scores of an item."""
    scale = 100 if curve == "probe" else 1
    return {
        place: {
            seed: scale * record.curves[curve][-1][1]
            for seed, record in own.items()
            if record.curves.get(curve)
        }
        for place, own in records.items()
    }


def value_of(
    item: Item, column: Column, cell: Cell, record: Record, subject: str = "encoder"
) -> float | None:
    """The number of a cell that an item shows: a score in percent, or seconds per step."""
    if item.unit == "seconds":
        return record.seconds.get("step") if subject == "encoder" else None
    score = record.score(_score_name(column, cell), subject)
    return None if score is None else 100 * score


def _score_name(column: Column, cell: Cell) -> str:
    """The score of a record that a column shows; empty if the cell measures only its training."""
    return column.measure or str(cell.evaluation["protocol"][0]) if cell.evaluation else ""


def table(
    item: Item,
    scale: Scale,
    filled: Filled,
    *,
    match: Match,
    tuned: bool,
    command: str,
) -> str:
    """The whole section of an item."""
    columns = columns_at(item, scale)
    lines = [f"### {item.name}: {item.title}", "", _head(item, scale, match, tuned), ""]
    lines += [*_rows(item, columns, filled), *(_agreement(item, filled) if scale == "paper" else ()), ""]
    lines += [*(_claim(judged, scale) for judged in filled.judged), ""]
    lines += _lengths(filled)
    lines += _unlike(filled)
    if item.unit == "seconds":
        lines += _machines(filled)
    lines += chosen_in_words(filled.chosen)
    if missing := len({cell.digest for cell in filled.missing}):
        lines.append(f"Incomplete: {missing} cells have not been run, or failed.")
    for why in dict.fromkeys(filled.undecided.values()):
        places = "; ".join(
            f"{row}, {column}" for (row, column), own in filled.undecided.items() if own == why
        )
        lines.append(f"Incomplete: {places}: {why}.")
    lines += [f"Failed: {what}: {why}" for what, why in filled.failed.items()]
    lines += ["", f"    {command}"]
    return "\n".join(lines)


def _head(item: Item, scale: Scale, match: Match, tuned: bool) -> str:
    if scale == "smoke":
        return f"{item.quantity} after a few steps on digits: this only shows that everything runs."
    if scale == "paper":
        return f"{item.quantity} at the paper's scale. Needs: {item.needs}."
    values = _trials(item) if tuned else "the paper's temperatures, t+ and t-"
    if item.timed_steps:
        equal = f"{item.timed_steps} steps in every row"
    elif longer := [row.name for row in item.rows if row.longer != 1.0]:
        equal = f"equal {match} in every row, but longer in {', '.join(longer)} by the plan of the table"
    else:
        equal = f"equal {match} in every row"
    encoders = {row.settings["encoder"] for row in item.rows if "encoder" in row.settings}
    instead = f", {', '.join(sorted(encoders))} as the encoder" if encoders else ""
    chosen = {"base_lr"} if tuned else set()
    given = chosen.union(*(row.settings for row in item.rows))
    ours = in_words({name: MINI[name] for name in OURS if name not in given})
    cacr_rows = [row for row in item.rows if row.settings.get("objective") == "cacr"]
    equation = bool(cacr_rows) and not any("negatives" in row.settings for row in cacr_rows)
    negatives = "negatives of CACR are those of the paper's equation, not of its code; " if equation else ""
    return (
        f"{item.quantity} at the scale mini{instead}, {equal}, {values}; {ours} are ours, not the paper's; {negatives}"
        "mean ± spread over seeds (number of seeds); the paper's number, at its own scale, in brackets."
    )


def _trials(item: Item) -> str:
    """How settings were tuned, with the number of trials of each row if it is not the same."""
    rows: dict[int, list[str]] = {}
    for row in rows_at(item, "mini"):
        rows.setdefault(len(trials_of(row)), []).append(row.name)
    numbers = [f"{number} trials of {', '.join(names)}" for number, names in rows.items()]
    told = "; ".join(numbers) if len(rows) > 1 else f"{next(iter(rows))} trials of every row"
    shared = "".join(
        f"; {column.name} has the settings of {column.tuned_on}"
        for column in columns_at(item, "mini")
        if column.tuned_on
    )
    return f"settings tuned on held-out training images ({told}{shared})"


def _rows(item: Item, columns: Sequence[Column], filled: Filled) -> list[str]:
    lines = [f"| | {' | '.join(column.name for column in columns)} |", "|---" * (len(columns) + 1) + "|"]
    places = [column.name for column in item.columns]
    names = [row.name for row in item.rows] + [
        name for name in REFERENCES.values() if any(place[0] == name for place in filled.scores)
    ]
    digits = 4 if item.unit == "seconds" else 2
    for name in names:
        said = item.paper.get(name, ())
        cells = []
        for column in columns:
            quoted = said[places.index(column.name)] if said else None
            scores = filled.scores.get((name, column.name), {})
            base = filled.scores.get((name, column.drop_from), {})
            cells.append(_cell(scores, quoted, digits) + _drop(base, scores))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _agreement(item: Item, filled: Filled) -> list[str]:
    """How many numbers agree with the paper's within the tolerance, and the differences of the others."""
    if item.unit == "seconds":
        return []
    apart = {
        (name, column.name): fmean(scores.values()) - quoted
        for name, numbers in item.paper.items()
        for column, quoted in zip(item.columns, numbers, strict=True)
        if quoted is not None and (scores := filled.scores.get((name, column.name)))
    }
    if not apart:
        return []
    others = [
        f"{row}, {column} ({by:+.2f})" for (row, column), by in apart.items() if abs(by) > item.tolerance
    ]
    agree = f"{len(apart) - len(others)} of {len(apart)} numbers are within {item.tolerance:g} points of the paper's"
    return ["", f"{agree}; not: {'; '.join(others)}." if others else f"{agree}."]


def _cell(scores: Mapping[int, float], paper: float | None, digits: int) -> str:
    quoted = "" if paper is None else f" [{paper:g}]"
    if not scores:
        return quoted.strip()
    values = list(scores.values())
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{fmean(values):.{digits}f}{spread} ({len(values)}){quoted}"


def _drop(base: Mapping[int, float], scores: Mapping[int, float]) -> str:
    """The mean difference from another column, over the seeds that both have."""
    lost = [base[seed] - scores[seed] for seed in base.keys() & scores.keys()]
    return f", drop {fmean(lost):.2f}" if lost else ""


def _claim(judged: Judged, scale: Scale) -> str:
    verdict = "a smoke run shows nothing" if scale == "smoke" else judged.words
    return f"- {judged.claim.text} **{verdict}**"


def _lengths(filled: Filled) -> list[str]:
    """The length of the trainings of each column: equal views are not equal epochs."""
    found: dict[str, set[str]] = {}
    for (_, column), records in filled.records.items():
        for record in records.values():
            budget = record.budget
            epochs = budget["views_seen"] / budget["views"] / budget["images"]
            text = (
                f"{budget['views_seen']:,} views in {budget['steps']:,} steps, {epochs:.1f} epochs of "
                f"{budget['images']:,} images (V = {budget['views']})"
            )
            found.setdefault(column, set()).add(text)
    return [f"{column}: {'; '.join(sorted(texts))}." for column, texts in found.items()]


def _unlike(filled: Filled) -> list[str]:
    """What differs between trainings that should be alike: the digest of a cell does not contain it."""
    lines = []
    for (row, column), records in filled.records.items():
        names = dict.fromkeys(name for record in records.values() for name in record.resolved)
        values = {n: {json.dumps(record.resolved.get(n)) for record in records.values()} for n in names}
        if differing := [name for name, own in values.items() if len(own) > 1 and name not in FREE]:
            lines.append(f"Not alike: the seeds of {row}, {column} differ in {', '.join(differing)}.")
    every = [record for records in filled.records.values() for record in records.values()]
    for name, found in (
        ("precisions", {record.resolved.get("precision", "") for record in every}),
        ("versions of cacr", {record.versions.get("cacr", "") for record in every}),
        ("versions of torch", {record.versions.get("torch", "") for record in every}),
    ):
        if len(found) > 1:
            lines.append(f"Not alike: cells have different {name}: {', '.join(sorted(map(str, found)))}.")
    return lines


def _machines(filled: Filled) -> list[str]:
    """The machine on which time was measured; if there are several, what was measured on each."""
    places: dict[str, list[str]] = {}
    for (row, column), records in filled.records.items():
        for machine in dict.fromkeys(record.machine for record in records.values()):
            places.setdefault(machine or "an unknown machine", []).append(f"{row}, {column}")
    if len(places) < 2:
        return [f"Measured on {machine}." for machine in places]
    each = [f"{machine} ({'; '.join(names)})" for machine, names in places.items()]
    return [f"Measured on different machines, so that times cannot be compared: {'; '.join(each)}."]
