"""Table A1: six objectives on three small data sets, AlexNet, 200 epochs.

Claim: CACR is above the other objectives with the same number of positives.
"""

from cacr.ledger.item import Claim, Item, add
from cacr.ledger.items._small import CACR_1, CACR_4, CL, CMC, NEEDS, SIX, small_columns

add(
    Item(
        "tableA1",
        "six objectives on small data sets, AlexNet",
        SIX,
        small_columns("cifar10", "cifar100", "stl10"),
        claims=(
            Claim.above(
                "With one positive CACR is above CL.", (CACR_1.name, "CIFAR-10"), (CL.name, "CIFAR-10")
            ),
            Claim.above(
                "With four positives CACR is above CMC.", (CACR_4.name, "CIFAR-10"), (CMC.name, "CIFAR-10")
            ),
        ),
        paper={
            "CL (SimCLR)": (83.47, 55.41, 83.89),
            "AU-CL": (83.39, 55.31, 84.43),
            "HN-CL": (83.67, 55.87, 83.27),
            "CACR (K=1)": (83.73, 56.52, 84.51),
            "CMC (K=4)": (85.54, 58.64, 84.50),
            "CACR (K=4)": (86.54, 59.41, 85.59),
        },
        needs=NEEDS,
    )
)
