"""Shared parts of the small-scale items: the six systems of table 2, and columns of small data sets.

The paper divides the number of images per batch by four if there are four positives. ``mini`` gives every row 640
views per step. ``--tune`` tries the paper's temperature or t- and another one; the weights of the sharpest of each
row are about alike: t- = 4 weighs negatives as a temperature of 0.125 does.
"""

from inspect import signature
from typing import Any

from cacr.ledger.item import LOWER_RATES, Column, Row
from cacr.losses import OBJECTIVES

ONE: dict[str, Any] = {"views": 2, "batch_size": 320}
FOUR: dict[str, Any] = {"views": 5, "batch_size": 128}

CL = Row(
    "CL (SimCLR)",
    {"objective": "info_nce", "temperature": 0.19, **ONE},
    "{data}-cl",
    tuned={"temperature": (0.19, 0.1)},
    rates=LOWER_RATES,
)
AU_CL = Row(
    "AU-CL",
    {"objective": "align_uniform", "t": 2.0, "batch_norm": "joint", **ONE},
    "{data}-au",
    tuned={"t": (2.0, 3.0)},
)
HN_CL = Row(
    "HN-CL",
    {"objective": "hard_negative", "temperature": 0.5, **ONE},
    "{data}-hn",
    tuned={"temperature": (0.19, 0.5)},
    rates=LOWER_RATES,
)
CACR_1 = Row(
    "CACR (K=1)",
    {"objective": "cacr", "t_neg": 2.0, **ONE},
    "{data}-cacr-k1",
    tuned={"t_neg": (2.0, 4.0)},
)
CMC = Row(
    "CMC (K=4)",
    {"objective": "cmc", "temperature": 0.19, **FOUR},
    "{data}-cmc",
    tuned={"temperature": (0.19, 0.1)},
    rates=LOWER_RATES,
)
CACR_4 = Row(
    "CACR (K=4)",
    {"objective": "cacr", "t_neg": 0.9, **FOUR},
    "{data}-cacr-k4",
    tuned={"t_neg": (0.9, 4.0)},
)
SIX = (CL, AU_CL, HN_CL, CACR_1, CMC, CACR_4)

NEEDS = "CIFAR-10 and CIFAR-100 (STL-10: 3 GB); about 2 GPU hours per cell, 8 GB of GPU memory"


IDLE = {"neg_weights": "t_neg", "pos_weights": "t_pos"}
"""Weights -> the setting that has no effect if they are uniform."""


def variant(name: str, base: Row, **changes: Any) -> Row:
    """A row with other settings, at every scale; what it sets is not tuned, nor what has no effect with it.

    Values that an objective has by default are left out of its settings, so that equal trainings are one cell. A
    recipe may have others: at the paper's scale all are set.
    """
    known = signature(OBJECTIVES[base.settings["objective"]]).parameters
    new = {key: value for key, value in changes.items() if key not in known or known[key].default != value}
    kept = {key: value for key, value in base.settings.items() if key not in changes}
    fixed = {*changes, *(idle for weights, idle in IDLE.items() if (kept | new).get(weights) == "uniform")}
    tuned = {key: values for key, values in base.tuned.items() if key not in fixed}
    return Row(name, kept | new, base.recipe, {**base.paper, **changes}, tuned, base.rates)


def small_columns(
    *data: str,
    imbalance: str = "none",
    protocol: str = "linear-paper",
    **settings: Any,
) -> tuple[Column, ...]:
    """One column per data set, evaluated by the paper's probe; ``mini`` has CIFAR-10.

    The linear rule leaves more than half of the images, and has the settings that trials on all of them choose.
    """
    names = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "stl10": "STL-10"}
    rule = "" if imbalance == "none" else f", {imbalance}"
    own = settings if imbalance == "none" else {"imbalance": imbalance, **settings}
    return tuple(
        Column(
            names[name] + rule,
            name,
            own,
            {"data": name, "protocol": [protocol]},
            mini=name == "cifar10",
            drop_from=names[name] if rule else "",
            tuned_on=names[name] if imbalance == "linear" else "",
        )
        for name in data
    )
