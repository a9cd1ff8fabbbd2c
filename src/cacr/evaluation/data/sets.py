"""The data sets of the ELEVATER benchmark, from the table ``sets.yaml``."""

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import yaml

SUITE = "suite:"
"""Prefix of a folder of data sets."""


@dataclass(frozen=True)
class TransferSet:
    """One data set.

    Attributes:
        name: Short name.
        title: Name in papers.
        classes: Number of classes.
        train: Number of training images.
        test: Number of test images.
        metric: Metric of the benchmark; a name in ``METRICS``.
        folders: Folder names of this data set.
        split: Which images are for training and which for testing.
        get: Where to get it.
        layout: Content of its ``train/`` and ``test/``.
        squeezed: Whether the benchmark resizes whole images to squares, instead of cropping the centre.
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
        """Describe how a copy differs from the benchmark's data set; empty if it does not differ."""
        if (classes, train, test) == (self.classes, self.train, self.test):
            return ""
        return (
            f"{self.name} here: {classes:,} classes, {train:,} training and {test:,} test images; in the benchmark: "
            f"{self.classes:,}, {self.train:,} and {self.test:,}. Do not compare with published numbers"
        )


@cache
def transfer_sets() -> tuple[TransferSet, ...]:
    """The twenty data sets, in the order of the paper's Table 6."""
    rows = yaml.safe_load(files("cacr.evaluation.data").joinpath("sets.yaml").read_text(encoding="utf-8"))
    return tuple(TransferSet(**{**row, "folders": tuple(row["folders"])}) for row in rows)


def known_set(data: str) -> TransferSet | None:
    """The data set with the name of a folder or source, or None."""
    name = re.sub(r"[\W_]+", "-", Path(data.rstrip("/")).name.lower())
    return next((known for known in transfer_sets() if name in known.folders), None)


def is_suite(data: str) -> bool:
    """Whether the data is a folder of data sets, not a single one."""
    return data.startswith(SUITE)
