"""A table or figure of the paper: its rows, columns and numbers, and the claims that it is to settle."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cacr.registry import Registry


@dataclass(frozen=True)
class Row:
    """A system that is compared.

    Attributes:
        name: as in the paper.
        settings: of ``cacr.pretrain`` that make it, at any scale: objective, options, views.
        recipe: at the paper's scale; ``{data}`` and ``{part}`` are replaced by the column's. None: the paper quotes
            the number from elsewhere, and there is nothing to train.
        paper: settings beside the recipe at the paper's scale.
        tuned: setting -> values that ``--tune`` tries, beside the learning rate.
        longer: times the length of the other rows at the scale ``mini``.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    recipe: str | None = None
    paper: Mapping[str, Any] = field(default_factory=dict)
    tuned: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    longer: float = 1.0


@dataclass(frozen=True)
class Column:
    """A measurement.

    Attributes:
        name: as in the paper.
        data: what encoders are trained on.
        settings: of ``cacr.pretrain``, such as the imbalance.
        evaluation: of ``cacr.evaluate`` at the paper's scale.
        mini: whether ``mini`` has it; the data at hand are CIFAR-10's.
        part: of a recipe's name, such as the encoder.
        measure: which score of a record it shows: the protocol's name, and a space and a measure where that has
            several; empty: that of the first protocol.
        references: what is measured without training: ``untrained``, ``pixels``.
        whole_start: whether more than an encoder is there before training, such as a text side: the reference then has
            all settings of the first row.
        smoke: of ``cacr.evaluate`` at the scale ``smoke``.
        smoke_data: what encoders are trained on there.
    """

    name: str
    data: str = "cifar10"
    settings: Mapping[str, Any] = field(default_factory=dict)
    evaluation: Mapping[str, Any] = field(default_factory=dict)
    mini: bool = False
    part: str = ""
    measure: str = ""
    references: tuple[str, ...] = ("untrained", "pixels")
    whole_start: bool = False
    smoke: Mapping[str, Any] = field(
        default_factory=lambda: {"data": "digits", "protocol": ["knn"], "reader": "raw"}
    )
    smoke_data: str = "digits"


Place = tuple[str, str]
"""Names of a row and a column."""


@dataclass(frozen=True)
class Claim:
    """What the paper says of a table, and the one number that settles it.

    Attributes:
        text: the claim in a sentence.
        contrast: place -> weight; the claim holds if the weighted sum of scores is above zero.
    """

    text: str
    contrast: Mapping[Place, float]

    @classmethod
    def above(cls, text: str, better: Place, worse: Place) -> "Claim":
        """That one place is above another."""
        return cls(text, {better: 1.0, worse: -1.0})


@dataclass(frozen=True)
class Item:
    """A table or figure.

    Attributes:
        name: ``table2``, ``figure3``.
        title: one line.
        rows: systems.
        columns: measurements.
        claims: each with its primary contrast, named before anything is run.
        paper: row -> its numbers in the paper, in the order of the columns; None where there is none. The only
            numbers of this software that are typed by hand.
        needs: data, memory and time at the paper's scale.
        tolerance: how far, in points, a number of the paper's scale may be from the paper's.
        no_mini: why there is no ``mini``; empty where there is one.
        curves: figures of a run that are drawn against epochs, for items that are figures.
        draws: figures of ``cacr figures`` that each run draws.
        quantity: what the numbers are.
        drop_from: the column that others of the same data are compared with, where the paper prints the loss.
    """

    name: str
    title: str
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    claims: tuple[Claim, ...] = ()
    paper: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    needs: str = ""
    tolerance: float = 1.0
    no_mini: str = ""
    curves: tuple[str, ...] = ()
    draws: tuple[str, ...] = ()
    quantity: str = "accuracy (%)"
    drop_from: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "__doc__", self.title)  # for listings
        rows, columns = {row.name for row in self.rows}, {column.name for column in self.columns}
        named = [place for claim in self.claims for place in claim.contrast]
        wrong = [place for place in named if place[0] not in rows or place[1] not in columns]
        wrong += [(name, "") for name in self.paper if name not in rows]
        wrong += [(name, "") for name, values in self.paper.items() if len(values) != len(self.columns)]
        if wrong:
            raise ValueError(f"{self.name}: no such places in its rows and columns: {wrong}")


ITEMS: Registry[Item] = Registry("item")


def add(item: Item) -> None:
    """Make an item a choice of ``cacr reproduce``."""
    ITEMS.register(item.name)(item)
