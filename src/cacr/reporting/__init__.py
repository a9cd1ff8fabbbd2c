"""Reports: what a run did, on one page."""

from cacr.reporting.neighbours import PICTURES, draw_neighbours, write_neighbours
from cacr.reporting.page import write_report

__all__ = ["PICTURES", "draw_neighbours", "write_neighbours", "write_report"]
