"""Photograph parts of a run's page, side by side: ``python docs/figures/page.py runs/photos docs/figures/run.png``.

A Chromium must be installed.
"""

import argparse
import io
import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PARTS = ("#overview .card", "#map .stack")
"""What was learned in words, and the map."""

GAP = 24


def main() -> None:
    """Read the arguments and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("run", type=Path, help="a run folder, or a page")
    parser.add_argument("out", type=Path, help="the picture: .png")
    parser.add_argument("--parts", nargs="+", default=PARTS, help="CSS selectors")
    parser.add_argument("--width", type=int, default=620, help="of the window, in pixels")
    options = parser.parse_args()
    page = options.run / "report.html" if options.run.is_dir() else options.run
    shots = photograph(page.resolve(), options.parts, options.width)
    height = max(shot.height for shot in shots)
    picture = Image.new("RGB", (sum(shot.width for shot in shots) + GAP * (len(shots) - 1), height), "white")
    left = 0
    for shot in shots:
        picture.paste(shot, (left, (height - shot.height) // 2))
        left += shot.width + GAP
    # few colours are enough for text and dots, and make the file small
    picture.quantize(128, dither=Image.Dither.NONE).save(options.out, optimize=True)


def photograph(page: Path, parts: list[str], width: int) -> list[Image.Image]:
    """The parts of a page that CSS selectors name, in a window of this width."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": width, "height": 900}, color_scheme="light")
        shown.goto(page.as_uri())
        shown.wait_for_timeout(2000)  # the map is drawn
        data = [shown.locator(part).first.screenshot() for part in parts]
        browser.close()
    return [Image.open(io.BytesIO(each)).convert("RGB") for each in data]


if __name__ == "__main__":
    main()
