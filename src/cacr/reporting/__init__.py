"""Reports: what a run did and learned, on one HTML page."""

from cacr.reporting.comparison import comparison_tables
from cacr.reporting.contact_page import write_groups_page, write_selection_page
from cacr.reporting.neighbours import PICTURES, draw_neighbours, write_neighbours
from cacr.reporting.page import refresh_report, write_report
from cacr.reporting.shown import MOST_PICTURES, MOST_POINTS

__all__ = [
    "MOST_PICTURES",
    "MOST_POINTS",
    "PICTURES",
    "comparison_tables",
    "draw_neighbours",
    "refresh_report",
    "write_groups_page",
    "write_neighbours",
    "write_report",
    "write_selection_page",
]
