"""Table A13: Euclidean against RBF cost.

Claim: both costs do equally well, so there is nothing that one test could confirm; the contrast says which is above.
"""

from cacr.ledger.item import Claim, Item, add
from cacr.ledger.items._small import CACR_1, CACR_4, NEEDS, small_columns, variant

EUCLIDEAN, RBF = "{}, Euclidean", "{}, RBF"

add(
    Item(
        "tableA13",
        "Euclidean against RBF cost",
        tuple(
            variant(name.format(row.name), row, cost=cost)
            for row in (CACR_1, CACR_4)
            for name, cost in ((EUCLIDEAN, "euclidean"), (RBF, "rbf"))
        ),
        small_columns("cifar10", "cifar100", "stl10"),
        claims=(
            Claim.above(
                "The Euclidean cost is above the RBF cost (the paper says: comparable).",
                (EUCLIDEAN.format(CACR_4.name), "CIFAR-10"),
                (RBF.format(CACR_4.name), "CIFAR-10"),
            ),
        ),
        paper={
            EUCLIDEAN.format(CACR_1.name): (83.73, 56.21, 83.55),
            RBF.format(CACR_1.name): (83.08, 55.90, 84.20),
            EUCLIDEAN.format(CACR_4.name): (85.94, 59.41, 85.59),
            RBF.format(CACR_4.name): (86.20, 58.81, 85.80),
        },
        needs=NEEDS,
    )
)
