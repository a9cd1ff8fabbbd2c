"""CSV files of selections, predictions and groups, which other commands can read (``--images``, ``--labels``)."""

from pathlib import Path

from cacr.features.collection import Collection
from cacr.files import atomic_path
from cacr.reading.tables import write_table
from cacr.sorting.group import Groups
from cacr.sorting.predict import Guesses
from cacr.sorting.select import Selection


def write_selection(out: Path, found: Collection, selection: Selection) -> None:
    """``path,label,score``, the best first, with labels to fill in.

    Duplicates have ``path,kept,score``, with the image to keep; outliers have ``path,score``.
    """
    names = [found.name(number) for number in selection.chosen.tolist()]
    scores = [f"{score:.6g}" for score in selection.score.tolist()]
    if selection.kept is not None:
        kept = [found.name(number) for number in selection.kept.tolist()]
        columns, between = ["path", "kept", "score"], [kept]
    elif selection.by == "outliers":
        columns, between = ["path", "score"], []
    else:
        columns, between = ["path", "label", "score"], [[""] * len(names)]
    _write(out, columns, [list(row) for row in zip(names, *between, scores, strict=True)])


def write_guesses(out: Path, found: Collection, guesses: Guesses) -> None:
    """``path,label,confidence,second,second_confidence``, the least certain first.

    If labelled images were predicted too, ``given`` is their own label.
    """
    columns = ["path", "label", "confidence", "second", "second_confidence"]
    names = guesses.class_names
    rows = []
    for number, which, value in zip(
        guesses.images.tolist(), guesses.classes.tolist(), guesses.confidence.tolist(), strict=True
    ):
        row = [found.name(number), names[which[0]], f"{value[0]:.4f}", names[which[1]], f"{value[1]:.4f}"]
        rows.append([*row, found.label(number) or ""] if guesses.everything else row)
    _write(out, [*columns, "given"] if guesses.everything else columns, rows)


def write_groups(out: Path, found: Collection, groups: Groups) -> None:
    """``path,group,similarity``, group by group, those nearest to the centre first; with ``label`` if it is known."""
    labelled = found.known is not None and len(found.known.where) > 0
    rows = []
    for group in groups.groups:
        for number, value in zip(group.images.tolist(), group.similarity.tolist(), strict=True):
            row = [found.name(number), group.name, f"{value:.4f}"]
            rows.append([*row, found.label(number) or ""] if labelled else row)
    _write(out, ["path", "group", "similarity"] + (["label"] if labelled else []), rows)


def _write(out: Path, columns: list[str], rows: list[list[str]]) -> None:
    with atomic_path(out) as temporary:
        write_table(temporary, columns, rows)
