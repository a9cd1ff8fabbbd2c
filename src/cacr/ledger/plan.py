"""``cacr reproduce``: the plan of an item of the paper, from its cells to its table."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cacr.errors import UserError
from cacr.ledger.cell import Cell
from cacr.ledger.drawing import Drawn, draw
from cacr.ledger.item import ITEMS, Item, Place
from cacr.ledger.record import Ledger
from cacr.ledger.scales import Match, Scale, Sheet, columns_at, rows_at, sheet_of
from cacr.ledger.table import Filled, fill, table
from cacr.ledger.tuning import choose, decide
from cacr.registry import nearest
from cacr.shell import shell_words

OUT, DATA_ROOT = Path("ledger"), Path("data")
"""Default folders of the ledger and of named data sets."""


@dataclass(frozen=True)
class Plan:
    """What the user asked for.

    Attributes:
        item: the table or figure.
        scale: the scale.
        seeds: number of seeds, from 0.
        match: what is equal in all rows of ``mini``.
        tune: whether settings are chosen by trials.
        rows: names of the rows to run; empty for all. Tables show all rows.
        columns: names of the columns to run; empty for all.
    """

    item: Item
    scale: Scale
    seeds: int = 3
    match: Match = "views"
    tune: bool = False
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for kind, asked, there in (
            ("row", self.rows, rows_at(self.item, self.scale)),
            ("column", self.columns, columns_at(self.item, self.scale)),
        ):
            known = [each.name for each in there]
            if unknown := [name for name in asked if name not in known]:
                hint = nearest(unknown[0], known)
                raise UserError(f"{self.item.name} has no {kind} {unknown[0]!r} at this scale; {hint}")

    @classmethod
    def of(
        cls,
        name: str,
        *,
        rows: Iterable[str] | None = None,
        columns: Iterable[str] | None = None,
        **more: Any,
    ) -> "Plan":
        """The plan of an item by its name."""
        return cls(ITEMS[name], rows=tuple(rows or ()), columns=tuple(columns or ()), **more)

    def sheet(self, ledger: Ledger) -> tuple[Sheet, dict[Place, dict[str, Any]]]:
        """The cells that are known now, and the settings that trials have chosen so far."""
        first = self._sheet({})
        if not self.tune:
            return first, {}
        chosen = choose(first, ledger)
        return self._sheet(chosen), chosen

    def cells(self, ledger: Ledger) -> list[Cell]:
        """The cells to run that are known now, in their order."""
        return self.sheet(ledger)[0].every(self.rows, self.columns)

    def unknown_cells(self, ledger: Ledger) -> int:
        """Number of cells to run that trials have to decide first."""
        return len(self.sheet(ledger)[0].undecided(self.rows, self.columns)) * self.seeds

    def decide(self, ledger: Ledger) -> None:
        """Store what finished trials decided; to be called before any cell is run with it."""
        decide(self._sheet({}), ledger)

    def _sheet(self, chosen: dict[Place, dict[str, Any]]) -> Sheet:
        return sheet_of(
            self.item, self.scale, range(self.seeds), match=self.match, tune=self.tune, chosen=chosen
        )

    def cell(self, digest: str, ledger: Ledger) -> Cell:
        """A cell by its digest.

        Raises:
            UserError: there is none, or trials have to be run first.
        """
        for cell in self.sheet(ledger)[0].every():
            if cell.digest == digest:
                return cell
        hint = "; with --tune most cells are known only after the trials" if self.tune else ""
        raise UserError(f"{self.item.name} has no cell {digest}: `--print-cells` lists them{hint}")

    def options(self, out: Path, data_root: Path, *, download: bool) -> list[str]:
        """The options of the command, for one of its cells."""
        told = ["--scale", self.scale, "--seeds", str(self.seeds), "--match", self.match]
        told += ["--out", str(out), "--data-root", str(data_root)]
        return told + ["--tune"] * self.tune + ["--download"] * download

    def filled(self, ledger: Ledger) -> Filled:
        """The results of the item so far; reads every record."""
        sheet, chosen = self.sheet(ledger)
        return fill(self.item, sheet, ledger, chosen)

    def draw(self, filled: Filled, ledger: Ledger) -> Drawn:
        """Draw the figures of the item."""
        return draw(self.item, self.scale, filled, ledger)

    def text(self, filled: Filled, out: Path = OUT, data_root: Path = DATA_ROOT) -> str:
        """The section of the item in Markdown.

        Args:
            filled: the results.
            out: folder of the ledger, for the command.
            data_root: folder of named data sets, for the command.
        """
        words = ["cacr", "reproduce", self.item.name, "--scale", self.scale, "--seeds", self.seeds]
        words += ["--match", self.match] if self.match != "views" else []
        words += ["--tune"] * self.tune
        words += ["--out", out] if out != OUT else []
        words += ["--data-root", data_root] if data_root != DATA_ROOT else []
        command = shell_words(*words)
        return table(self.item, self.scale, filled, match=self.match, tuned=self.tune, command=command)
