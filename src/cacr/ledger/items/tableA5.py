"""Table A5: t+ of CACR with four positives.

Claim: small values are better; at 3 accuracy has fallen.
"""

from cacr.ledger.item import Claim, Item, add
from cacr.ledger.items._small import CACR_4, NEEDS, small_columns, variant

VALUES = (0.5, 0.7, 0.9, 1.0, 2.0, 3.0)
PAPER = (
    (86.07, 59.47, 85.90),
    (85.78, 59.61, 85.91),
    (85.90, 59.41, 85.81),
    (86.54, 59.41, 85.59),
    (84.85, 57.82, 85.65),
    (84.76, 57.55, 85.14),
)

add(
    Item(
        "tableA5",
        "t+ of CACR, four positives",
        tuple(variant(f"t+ = {value:g}", CACR_4, t_pos=value) for value in VALUES),
        small_columns("cifar10", "cifar100", "stl10"),
        claims=(
            Claim.above("t+ = 1 is better than t+ = 3.", ("t+ = 1", "CIFAR-10"), ("t+ = 3", "CIFAR-10")),
        ),
        paper={f"t+ = {value:g}": numbers for value, numbers in zip(VALUES, PAPER, strict=True)},
        needs=NEEDS,
    )
)
