"""Shared parts of the small-scale items: the six systems of table 2, and columns of small data sets.

The paper divides the number of images per batch by four if there are four positives. ``mini`` gives every row 640
views per step.
"""

from typing import Any

from cacr.ledger.item import Column, Row

ONE: dict[str, Any] = {"views": 2, "batch_size": 320}
FOUR: dict[str, Any] = {"views": 5, "batch_size": 128}

CL = Row(
    "CL (SimCLR)",
    {"objective": "info_nce", "temperature": 0.19, **ONE},
    "{data}-cl",
    tuned={"temperature": (0.19, 0.5)},
)
AU_CL = Row("AU-CL", {"objective": "align_uniform", "t": 2.0, **ONE}, "{data}-au", tuned={"t": (2.0, 3.0)})
HN_CL = Row(
    "HN-CL",
    {"objective": "hard_negative", "temperature": 0.5, **ONE},
    "{data}-hn",
    tuned={"temperature": (0.19, 0.5)},
)
CACR_1 = Row(
    "CACR (K=1)",
    {"objective": "cacr", "t_neg": 2.0, **ONE},
    "{data}-cacr-k1",
    tuned={"t_neg": (1.0, 4.0)},
)
CMC = Row(
    "CMC (K=4)",
    {"objective": "cmc", "temperature": 0.19, **FOUR},
    "{data}-cmc",
    tuned={"temperature": (0.19, 0.5)},
)
CACR_4 = Row(
    "CACR (K=4)",
    {"objective": "cacr", "t_neg": 0.9, **FOUR},
    "{data}-cacr-k4",
    tuned={"t_neg": (1.0, 4.0)},
)
SIX = (CL, AU_CL, HN_CL, CACR_1, CMC, CACR_4)

NEEDS = "CIFAR-10 and CIFAR-100 (STL-10: 3 GB); about 2 GPU hours per cell, 8 GB of GPU memory"


def variant(name: str, base: Row, **changes: Any) -> Row:
    """A row with other settings, at every scale."""
    return Row(name, {**base.settings, **changes}, base.recipe, {**base.paper, **changes}, base.tuned)


def small_columns(
    *data: str, imbalance: str = "none", mini: str = "cifar10", **settings: Any
) -> tuple[Column, ...]:
    """One column per data set, evaluated by the paper's probe; one of the data sets is that of ``mini``."""
    titles = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "stl10": "STL-10"}
    rule = "" if imbalance == "none" else f", {imbalance}"
    own = settings if imbalance == "none" else {"imbalance": imbalance, **settings}
    return tuple(
        Column(
            titles[name] + rule,
            name,
            own,
            {"data": name, "protocol": ["linear-paper"]},
            mini=name == mini,
        )
        for name in data
    )
