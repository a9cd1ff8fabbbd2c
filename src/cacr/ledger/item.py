"""A table or figure of the paper: its rows, columns and numbers, and the claims to test."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from cacr.registry import Registry

RATES, LOWER_RATES = (0.02, 0.06, 0.18, 0.54), (0.006, 0.02, 0.06, 0.18)
"""Learning rates that ``--tune`` tries, per step: a step has equally many views in every row, whatever the number of
images. The gradient of a loss with a temperature tau is 1 / tau times as large, so its rates are lower. With the same
rates for all, the best of CL was the lowest."""


@dataclass(frozen=True)
class Row:
    """A system in a comparison.

    Attributes:
        name: name in the paper.
        settings: settings of ``cacr.pretrain`` at any scale: objective, options, views.
        recipe: recipe at the paper's scale; ``{data}`` and ``{part}`` are replaced by those of the column. None: the
            paper quotes the number from another paper, and nothing is trained.
        paper: settings in addition to the recipe at the paper's scale.
        tuned: setting -> values that ``--tune`` tries, in addition to the learning rate.
        rates: learning rates that ``--tune`` tries, per step; equally many in every row.
        longer: length at the scale ``mini``, as a multiple of the other rows.
        line: the system that the row is a point of, in an item that varies a setting.
        at: its value of that setting.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    recipe: str | None = None
    paper: Mapping[str, Any] = field(default_factory=dict)
    tuned: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    rates: tuple[float, ...] = RATES
    longer: float = 1.0
    line: str = ""
    at: float = 0.0


@dataclass(frozen=True)
class Column:
    """A measurement.

    Attributes:
        name: name in the paper.
        data: training data.
        settings: settings of ``cacr.pretrain``, such as the imbalance.
        evaluation: settings of ``cacr.evaluate`` at the paper's scale.
        mini: whether ``mini`` has this column; it uses CIFAR-10.
        part: part of a recipe's name, such as the encoder.
        measure: which score of a record is shown: the name of the protocol, followed by a space and a metric if it has
            several; empty: the score of the first protocol.
        references: what is measured without training: ``untrained``, ``pixels``.
        drop_from: the column that this one is compared with, if an item has it: the paper prints the loss.
        tuned_on: the column whose trials choose the settings of this one too, if an item has it; empty: its own.
        whole_start: whether there is more than an encoder before training, such as a text encoder: the reference then
            has all settings of the first row.
        smoke: settings of ``cacr.evaluate`` at the scale ``smoke``.
        smoke_data: training data at that scale.
    """

    name: str
    data: str = "cifar10"
    settings: Mapping[str, Any] = field(default_factory=dict)
    evaluation: Mapping[str, Any] = field(default_factory=dict)
    mini: bool = False
    part: str = ""
    measure: str = ""
    references: tuple[str, ...] = ("untrained", "pixels")
    drop_from: str = ""
    tuned_on: str = ""
    whole_start: bool = False
    smoke: Mapping[str, Any] = field(
        default_factory=lambda: {"data": "digits", "protocol": ["knn"], "reader": "raw"}
    )
    smoke_data: str = "digits"


Unit = Literal["share", "seconds"]

Place = tuple[str, str]
"""Names of a row and a column."""


@dataclass(frozen=True)
class Claim:
    """A claim of the paper about a table, and the number that tests it.

    Attributes:
        text: the claim in a sentence.
        contrast: place -> weight; the claim holds if the weighted sum of scores is above zero.
        within: for a claim that there is no difference: it holds if the sum is between minus and plus this number.
        curve: the metric of the trainings whose last values are compared; empty: the scores of the item.
    """

    text: str
    contrast: Mapping[Place, float]
    within: float | None = None
    curve: str = ""

    @classmethod
    def above(cls, text: str, better: Place, worse: Place, *, curve: str = "") -> "Claim":
        """The claim that one place is above another."""
        return cls(text, {better: 1.0, worse: -1.0}, curve=curve)

    @classmethod
    def equal(cls, text: str, one: Place, other: Place, *, within: float) -> "Claim":
        """The claim that two places differ by less than a number of points."""
        return cls(text, {one: 1.0, other: -1.0}, within)


@dataclass(frozen=True)
class Item:
    """A table or figure.

    Attributes:
        name: ``table2``, ``figure3``.
        title: one line.
        rows: systems.
        columns: measurements.
        claims: each with its primary contrast, defined before anything is run.
        paper: row -> its numbers in the paper, in the order of the columns; None if there is none. These are the only
            numbers in cacr that are typed by hand.
        needs: data, memory and time at the paper's scale.
        tolerance: largest difference from the paper at the paper's scale, in points.
        no_mini: why there is no ``mini``; empty if there is one.
        curves: metrics of a run that are drawn over epochs, for items that are figures.
        draws: figures of ``cacr figures`` that each run draws.
        varied: the setting that the rows vary, as an axis is named: the scores are drawn against it, as the lines of
            the rows.
        quantity: what the numbers are, in words.
        unit: ``share``: a score in percent; ``seconds``: of a step.
        timed_steps: for an item that measures only time: the length of each training, but for a smoke test.
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
    varied: str = ""
    quantity: str = "accuracy (%)"
    unit: Unit = "share"
    timed_steps: int | None = None

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
    """Register an item for ``cacr reproduce``."""
    ITEMS.register(item.name)(item)


def paper_order(name: str) -> list[int | str]:
    """Sort key for names of items: numbers by their value, so that tableA2 comes before tableA10."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]
