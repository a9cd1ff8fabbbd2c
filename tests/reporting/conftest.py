"""A run on images whose thumbnails can be told apart by their colour, and its page."""

import colorsys
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.conftest import TINY, Once

HOSTILE = "<img src=x onerror=document.title='taken'>"
CLASSES = ("apples", HOSTILE, 'pears & "quinces"')
EACH = 16


def colour_of(label: int, number: int) -> tuple[int, int, int]:
    """Every image has a hue of its own."""
    r, g, b = colorsys.hsv_to_rgb((label * EACH + number) / (EACH * len(CLASSES)), 0.8, 0.9)
    return round(255 * r), round(255 * g), round(255 * b)


@pytest.fixture(scope="session")
def coloured(once: Once) -> Path:
    """Three classes of plain images with a dark spot, one of them twice; names that look like HTML."""

    def build(folder: Path) -> None:
        rng = np.random.default_rng(0)
        for label, name in enumerate(CLASSES):
            (folder / name).mkdir(parents=True)
            for number in range(EACH):
                pixels = np.full((40, 40, 3), colour_of(label, number), dtype=np.uint8)
                row, column = rng.integers(4, 36, 2)
                pixels[row - 3 : row + 3, column - 3 : column + 3] = 20
                Image.fromarray(pixels).save(folder / name / f"{number:02d}<b>&'.png")
        first = folder / CLASSES[0] / "03<b>&'.png"
        shutil.copy(first, folder / CLASSES[2] / "copy.png")

    return once("coloured", build)


@pytest.fixture(scope="session")
def coloured_run(once: Once, coloured: Path) -> Path:
    """A short run on them."""
    from cacr.training.pretrain import pretrain

    settings = {"data": str(coloured), "epochs": 3, "log_every_steps": 1, **TINY}
    return once("coloured <i>run", lambda folder: pretrain(settings, folder))


@pytest.fixture(scope="session")
def coloured_page(once: Once, coloured_run: Path) -> Path:
    """The run's page."""
    from cacr.reporting import write_report

    def build(folder: Path) -> None:
        folder.mkdir()
        _, missing = write_report([coloured_run], out=folder / "report.html")
        assert missing == ""

    return once("page", build) / "report.html"
