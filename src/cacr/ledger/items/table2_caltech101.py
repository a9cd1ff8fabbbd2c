"""The primary comparison of table 2 on a second set: Caltech-101 of ``DATA_ROOT/transfer``, 15 photos per class.

Claim: what holds on unbalanced CIFAR-10 holds on other unbalanced data. Not in the paper.
The exponential rule of the paper would leave no photo of most classes; ``longtail:15`` keeps 15 of the first class, 1
of the last, and falls exponentially between them.
"""

from dataclasses import replace

from cacr.ledger.item import Claim, Column, Item, add
from cacr.ledger.items._small import CACR_1, CACR_4, CL

REGULAR, UNBALANCED = "Caltech-101", "Caltech-101, long tail"
EVALUATION = {"data": "caltech101", "protocol": ["linear"]}

add(
    Item(
        "table2-caltech101",
        "table 2's primary comparison on a second set, Caltech-101 (not in the paper)",
        tuple(replace(row, recipe=None) for row in (CL, CACR_1, CACR_4)),
        (
            Column(REGULAR, "caltech101", {}, EVALUATION, mini=True),
            Column(
                UNBALANCED,
                "caltech101",
                {"imbalance": "longtail:15"},
                EVALUATION,
                mini=True,
                drop_from=REGULAR,
            ),
        ),
        claims=(
            Claim.above(
                "On unbalanced photos CACR with four positives learns better features than CL.",
                (CACR_4.name, UNBALANCED),
                (CL.name, UNBALANCED),
            ),
        ),
        needs="Caltech-101 as a folder with train/ and test/ in DATA_ROOT/transfer/caltech101",
    )
)
