"""The largest page there is: as many points as are allowed, of images that do not compress."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cacr.reporting import MOST_PICTURES, MOST_POINTS, write_report
from cacr.reporting.shown import Shown
from cacr.training.pretrain import pretrain
from tests.conftest import TINY


@pytest.mark.slow
@pytest.mark.trains
def test_the_largest_page_is_under_15_mb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, browser: Any
) -> None:
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (MOST_POINTS, 32, 32, 3), dtype=np.uint8)
    labels = rng.integers(0, 1000, MOST_POINTS)
    np.savez(tmp_path / "noise.npz", x=noise, y=labels)
    names = [hashlib.sha256(str(number).encode()).hexdigest() + ".jpg" for number in range(MOST_POINTS)]
    monkeypatch.setattr(Shown, "names", lambda shown: ("/data", names))
    run = tmp_path / "run"
    pretrain({"data": str(tmp_path / "noise.npz"), **TINY, "max_steps": 1}, run)
    page, missing = write_report([run])
    assert missing == "" and page.stat().st_size < 15_000_000
    context = browser.new_page()
    context.set_default_timeout(0)
    context.goto(page.as_uri())
    context.wait_for_selector("body[data-ready=yes]")
    canvas = context.locator(".map canvas:not(.over)")
    canvas.scroll_into_view_if_needed()
    text = context.locator("#map").inner_text()
    assert "50,000 images" in text and f"{MOST_PICTURES:,} of them" in text
    image = 31_415
    context.mouse.move(*context.evaluate("i => document.querySelector('.map canvas').placeOf(i)", image))
    assert context.locator("#tip b").inner_text() in names
    context.close()
