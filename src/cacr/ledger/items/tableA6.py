"""Table A6: t- of CACR with one positive and with four.

Claim: small values are worse, because the weights are nearly uniform.
"""

from cacr.ledger.item import Claim, Item, add
from cacr.ledger.items._small import CACR_1, CACR_4, NEEDS, small_columns, variant

VALUES = (0.5, 0.7, 0.9, 1.0, 2.0, 3.0)
PAPER = {
    "K=1": (
        (81.66, 51.42, 80.37),
        (82.40, 52.81, 81.47),
        (83.07, 53.36, 84.46),
        (82.74, 54.20, 82.16),
        (83.73, 56.21, 84.21),
        (83.11, 56.52, 84.51),
    ),
    "K=4": (
        (85.67, 58.17, 83.81),
        (86.19, 58.63, 84.42),
        (86.54, 59.37, 84.71),
        (86.41, 59.35, 85.25),
        (85.94, 59.41, 85.59),
        (85.69, 59.31, 85.41),
    ),
}

add(
    Item(
        "tableA6",
        "t- of CACR, one and four positives",
        tuple(
            variant(f"{k}, t- = {value:g}", row, t_neg=value)
            for k, row in (("K=1", CACR_1), ("K=4", CACR_4))
            for value in VALUES
        ),
        small_columns("cifar10", "cifar100", "stl10"),
        claims=(
            Claim.above(
                "With one positive t- = 2 is better than t- = 0.5.",
                ("K=1, t- = 2", "CIFAR-10"),
                ("K=1, t- = 0.5", "CIFAR-10"),
            ),
            Claim.above(
                "With four positives t- = 0.9 is better than t- = 0.5.",
                ("K=4, t- = 0.9", "CIFAR-10"),
                ("K=4, t- = 0.5", "CIFAR-10"),
            ),
        ),
        paper={
            f"{k}, t- = {value:g}": numbers
            for k, rows in PAPER.items()
            for value, numbers in zip(VALUES, rows, strict=True)
        },
        needs=NEEDS,
    )
)
