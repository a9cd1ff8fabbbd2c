"""The site of the documentation in a real browser, opened from disk."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Once

ROOT = Path(__file__).parents[1]
PAGES = ("index", "tutorials/few-labels", "results")
PHONE, DESKTOP = 390, 1280


@pytest.fixture(scope="session")
def site(once: Once) -> Path:
    """The built pages; from a copy of the sources, because building writes the pages of the modules next to them."""
    for package in ("myst_parser", "pydata_sphinx_theme", "sphinx_copybutton"):
        pytest.importorskip(package, reason="no packages of the site: pip install '.[docs]'")

    def build(folder: Path) -> None:
        shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("_build", "modules"))
        (folder / "src").symlink_to(ROOT / "src")
        command = [
            sys.executable,
            "-m",
            "sphinx",
            "-W",
            "--keep-going",
            "-q",
            folder / "docs",
            folder / "html",
        ]
        subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, check=True)

    return once("site", build) / "html"


@pytest.mark.slow
def test_pages_name_no_scripts_styles_or_pictures_of_others(site: Path) -> None:
    """Without a browser: what a page would load is written in its tags."""
    loaded = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=[\"']((?:https?:)?//[^\"']+)")
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(PAGES)
    assert not {page.name: found for page in pages if (found := loaded.findall(page.read_text("utf-8")))}


@pytest.mark.slow
def test_the_site_works_from_disk_on_phones_and_desktops(browser: Any, site: Path) -> None:
    """Nothing is fetched, nothing is wider than the window, the search finds pages, and colours can be dark."""
    requests: list[str] = []
    for width in (PHONE, DESKTOP):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme="light")
        context.set_default_timeout(0)  # a slow machine is no error
        context.route(re.compile("^(?!file:|data:|blob:)"), lambda route: route.abort())
        context.on("request", lambda request: requests.append(request.url))
        page = context.new_page()
        for name in PAGES:
            page.goto((site / f"{name}.html").as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (name, width)

        page.goto(f"{(site / 'search.html').as_uri()}?q=whitened")
        page.wait_for_selector("#search-results li a[href*='automatic-choices']")

        page.goto((site / "index.html").as_uri())
        background = "getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(background)
        if width == DESKTOP:
            page.locator("button.theme-switch-button:visible").first.click()
            page.locator("button.theme-change-button[data-mode=dark]:visible").first.click()
            page.wait_for_function(f"{background} !== {light!r}")
            assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        context.close()
    assert requests and all(url.startswith(("file:", "data:", "blob:")) for url in requests), requests
