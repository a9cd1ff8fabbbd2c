"""Reports: what a run did, on one page."""

from cacr.reporting.page import write_report

__all__ = ["write_report"]
