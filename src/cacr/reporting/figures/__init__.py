"""The paper's figures, for any run: PNG for slides, SVG for print."""

from cacr.reporting.figures.draw import FIGURES, Drawn, draw_figures

__all__ = ["FIGURES", "Drawn", "draw_figures"]
