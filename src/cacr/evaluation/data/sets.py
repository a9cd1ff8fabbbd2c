"""The data sets of the ELEVATER benchmark: a table, kept as data in ``sets.yaml``."""

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import yaml

SUITE = "suite:"
"""What the name of a folder of data sets begins with."""


@dataclass(frozen=True)
class TransferSet:
    """One data set.

    Attributes:
        name: Short name.
        title: As papers call it.
        classes: Number of classes.
        train: Number of training images.
        test: Number of test images.
        metric: What is reported; a name in ``METRICS``.
        folders: Names of folders that are taken for this set.
        split: Which images train and which test.
        get: Where a user gets it.
        layout: What its ``train/`` and ``test/`` hold.
        squeezed: Whether the benchmark makes squares of whole images, where it cuts out the centre of others.
    """

    name: str
    title: str
    classes: int
    train: int
    test: int
    metric: str
    folders: tuple[str, ...]
    split: str
    get: str
    layout: str
    squeezed: bool = False

    def difference(self, classes: int, train: int, test: int) -> str:
        """In words what a copy of the set has other than the benchmark; empty if nothing."""
        if (classes, train, test) == (self.classes, self.train, self.test):
            return ""
        return (
            f"{self.name} here: {classes:,} classes, {train:,} training and {test:,} test images; in the benchmark "
            f"{self.classes:,}, {self.train:,} and {self.test:,}: not to be compared with published numbers"
        )


@cache
def transfer_sets() -> tuple[TransferSet, ...]:
    """The twenty sets, in the order of the paper's Table 6."""
    rows = yaml.safe_load(files("cacr.evaluation.data").joinpath("sets.yaml").read_text(encoding="utf-8"))
    return tuple(TransferSet(**{**row, "folders": tuple(row["folders"])}) for row in rows)


def known_set(data: str) -> TransferSet | None:
    """The set that a folder or a named source is by its name, or None."""
    name = re.sub(r"[\W_]+", "-", Path(data.rstrip("/")).name.lower())
    return next((known for known in transfer_sets() if name in known.folders), None)


def is_suite(data: str) -> bool:
    """Whether data is a folder of data sets, not one of them."""
    return data.startswith(SUITE)
