"""Reproduce the paper's tables and figures, each with one command; the ledger stores the measurements."""

from cacr.ledger import items  # noqa: F401  (they register themselves)
from cacr.ledger.item import ITEMS, paper_order
from cacr.ledger.plan import Plan
from cacr.ledger.record import Ledger, Record
from cacr.ledger.reproduce import Reproduced, orders_of, reproduced, work_on_plan
from cacr.ledger.runner import Orders, by_training, cell_command, work_through

__all__ = [
    "ITEMS",
    "Ledger",
    "Orders",
    "Plan",
    "Record",
    "Reproduced",
    "by_training",
    "cell_command",
    "orders_of",
    "paper_order",
    "reproduced",
    "work_on_plan",
    "work_through",
]
