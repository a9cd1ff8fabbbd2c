"""The page's colours differ for people with any kind of colour vision."""

import itertools
import re
from importlib.resources import files

import numpy as np
import pytest

# What people see of linear RGB (Machado, Oliveira and Fernandes 2009, severity 1).
VISION = {
    "usual": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.01182, 0.04294, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.3039],
    ],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = np.array([0.9505, 1.0, 1.089])


def _web(name: str) -> str:
    return (files("cacr.reporting") / "web" / name).read_text(encoding="utf-8")


def _linear(colour: str) -> np.ndarray:
    c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def _lab(linear: np.ndarray) -> np.ndarray:
    x = XYZ @ linear.clip(0, 1) / WHITE
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def _contrast(first: str, second: str) -> float:
    a, b = sorted(float(XYZ[1] @ _linear(c)) for c in (first, second))
    return (b + 0.05) / (a + 0.05)


@pytest.mark.parametrize("vision", VISION)
def test_any_two_colours_differ(vision: str) -> None:
    found = re.search(r"const PALETTE = (\[.*?\])", _web("dom.js"))
    assert found
    colours = re.findall(r"#[0-9a-f]{6}", found[1])
    assert len(colours) == 6
    inks = re.findall(r"--ink: (#[0-9a-f]{6})", _web("page.css"))
    assert len(inks) == 2  # of the light and of the dark theme
    for ink in inks:
        seen = [_lab(np.asarray(VISION[vision]) @ _linear(colour)) for colour in [*colours, ink]]
        # A difference of 2.3 is just noticed; 10 is plain at a glance.
        assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 15


def test_text_stands_out_from_the_paper_in_both_themes() -> None:
    themes = [
        dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block))
        for block in re.findall(r":root \{(.*?)\}", _web("page.css"), re.DOTALL)
    ]
    assert len(themes) == 2
    for theme in themes:
        for name in ("ink", "soft", "link", "good", "bad", "unsure"):
            assert _contrast(theme[name], theme["paper"]) > 4.5, name
