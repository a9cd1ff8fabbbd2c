"""Table A13: Euclidean against RBF cost.

Claim: both costs do equally well: they differ by less than a point. The paper's numbers are those of t- = 2 (table A6),
except for one positive on STL-10.
"""

from dataclasses import replace

from cacr.ledger.item import Claim, Item, add
from cacr.ledger.items._small import CACR_1, CACR_4, NEEDS, small_columns, variant

EUCLIDEAN, RBF = "{}, Euclidean", "{}, RBF"

add(
    Item(
        "tableA13",
        "Euclidean against RBF cost",
        tuple(
            variant(name.format(row.name), row, cost=cost)
            for row in (replace(each, paper={"t_neg": 2.0}) for each in (CACR_1, CACR_4))
            for name, cost in ((EUCLIDEAN, "euclidean"), (RBF, "rbf"))
        ),
        small_columns("cifar10", "cifar100", "stl10"),
        claims=(
            Claim.equal(
                "Euclidean and RBF cost differ by less than one point.",
                (EUCLIDEAN.format(CACR_4.name), "CIFAR-10"),
                (RBF.format(CACR_4.name), "CIFAR-10"),
                within=1.0,
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
