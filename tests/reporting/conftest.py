"""A run on images whose thumbnails can be told apart by their colour, its page, and a browser to open it in."""

import colorsys
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.conftest import TINY

HOSTILE = "<img src=x onerror=document.title='taken'>"
CLASSES = ("apples", HOSTILE, 'pears & "quinces"')
EACH = 16


def colour_of(label: int, number: int) -> tuple[int, int, int]:
    """Every image has a hue of its own."""
    r, g, b = colorsys.hsv_to_rgb((label * EACH + number) / (EACH * len(CLASSES)), 0.8, 0.9)
    return round(255 * r), round(255 * g), round(255 * b)


@pytest.fixture(scope="session")
def coloured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes of plain images with a dark spot, one of them twice; names that look like HTML."""
    folder = tmp_path_factory.mktemp("coloured")
    rng = np.random.default_rng(0)
    for label, name in enumerate(CLASSES):
        (folder / name).mkdir()
        for number in range(EACH):
            pixels = np.full((40, 40, 3), colour_of(label, number), dtype=np.uint8)
            row, column = rng.integers(4, 36, 2)
            pixels[row - 3 : row + 3, column - 3 : column + 3] = 20
            Image.fromarray(pixels).save(folder / name / f"{number:02d}<b>&'.png")
    first = folder / CLASSES[0] / "03<b>&'.png"
    shutil.copy(first, folder / CLASSES[2] / "copy.png")
    return folder


@pytest.fixture(scope="session")
def coloured_run(coloured: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run on them."""
    from cacr.training.pretrain import pretrain

    out = tmp_path_factory.mktemp("runs") / "coloured <i>run"
    pretrain({"data": str(coloured), "epochs": 3, "log_every_steps": 1, **TINY}, out)
    return out


@pytest.fixture(scope="session")
def coloured_page(coloured_run: Path) -> Path:
    from cacr.reporting import write_report

    page, missing = write_report([coloured_run])
    assert missing == ""
    return page


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A Chromium: the system's, or the one that ``make browser`` installed."""
    api = pytest.importorskip("playwright.sync_api", reason="no Playwright: pip install 'cacr[dev]'")
    with api.sync_playwright() as playwright:
        names = ("chromium", "chromium-browser", "google-chrome")
        found = next(filter(None, map(shutil.which, names)), None)
        if found is None and not Path(playwright.chromium.executable_path).exists():
            pytest.skip("no Chromium is installed: `make browser` installs one")
        # Chromium's sandbox refuses to run as root, as in containers.
        flags = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        instance = playwright.chromium.launch(executable_path=found, args=flags)
        yield instance
        instance.close()
