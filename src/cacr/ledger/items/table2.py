"""Table 2: linear accuracy after pretraining on regular and unbalanced CIFAR.

Claim: CACR is above the other objectives, and loses least where the data is unbalanced.
Mini: CIFAR-10, quarter width, 200,000 views per cell, 3 minutes of one core each. The last row is not in the paper: its
weights pi+ and pi- have no gradient.
"""

from cacr.ledger.item import Claim, Item, add
from cacr.ledger.items._small import CACR_1, CACR_4, CL, NEEDS, SIX, small_columns, variant

REGULAR, EXPONENTIAL = "CIFAR-10", "CIFAR-10, exponential"

add(
    Item(
        "table2",
        "objectives on regular and unbalanced CIFAR, AlexNet",
        (*SIX, variant("CACR (K=4), weights held", CACR_4, pos_grad=False, neg_grad=False)),
        (
            *small_columns("cifar10", "cifar100"),
            *small_columns("cifar10", "cifar100", imbalance="linear"),
            *small_columns("cifar10", "cifar100", imbalance="exponential"),
        ),
        claims=(
            Claim.above(
                "On unbalanced data CACR with four positives learns better features than CL.",
                (CACR_4.name, EXPONENTIAL),
                (CL.name, EXPONENTIAL),
            ),
            Claim.above(
                "On unbalanced data CACR with one positive learns better features than CL.",
                (CACR_1.name, EXPONENTIAL),
                (CL.name, EXPONENTIAL),
            ),
            Claim.above(
                "On regular data CACR with four positives is above CL.",
                (CACR_4.name, REGULAR),
                (CL.name, REGULAR),
            ),
            Claim(
                "From regular to unbalanced data CACR with four positives loses less accuracy than CL.",
                {
                    (CACR_4.name, EXPONENTIAL): 1.0,
                    (CACR_4.name, REGULAR): -1.0,
                    (CL.name, EXPONENTIAL): -1.0,
                    (CL.name, REGULAR): 1.0,
                },
            ),
        ),
        paper={
            "CL (SimCLR)": (83.47, 55.41, 79.88, 52.29, 71.74, 43.29),
            "AU-CL": (83.49, 55.31, 80.25, 52.74, 71.62, 44.38),
            "HN-CL": (83.67, 55.87, 80.51, 52.72, 72.74, 45.13),
            "CACR (K=1)": (83.73, 56.52, 80.46, 54.12, 73.02, 46.59),
            "CMC (K=4)": (85.54, 58.64, 82.20, 55.38, 74.77, 48.87),
            "CACR (K=4)": (86.54, 59.41, 83.62, 56.91, 75.89, 50.17),
        },
        needs=NEEDS,
    )
)
