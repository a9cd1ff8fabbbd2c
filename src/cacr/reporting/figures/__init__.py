"""The paper's figures for any run: PNG for slides, SVG for print."""

from cacr.reporting.figures import (  # noqa: F401  (they register themselves)
    accuracy,
    entropy,
    neighbourhood,
    weights,
)
from cacr.reporting.figures.draw import Drawn, draw_figures
from cacr.reporting.figures.registry import FIGURES

__all__ = ["FIGURES", "Drawn", "draw_figures"]
