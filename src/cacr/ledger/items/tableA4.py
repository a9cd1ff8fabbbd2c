"""Table A4: CACR without the weights of positives, of negatives, and without both (UAUR).

Claim: the weights of the negatives are what counts; those of the positives help a little.
"""

from cacr.ledger.item import Claim, Item, add
from cacr.ledger.items._small import CACR_4, NEEDS, small_columns, variant

NO_POSITIVE, NO_NEGATIVE, UAUR = "without pi+", "without pi-", "without both (UAUR)"

add(
    Item(
        "tableA4",
        "CACR with and without its weights",
        (
            CACR_4,
            variant(NO_POSITIVE, CACR_4, pos_weights="uniform"),
            variant(NO_NEGATIVE, CACR_4, neg_weights="uniform"),
            variant(UAUR, CACR_4, pos_weights="uniform", neg_weights="uniform"),
        ),
        small_columns("cifar10", "cifar100", "stl10"),
        claims=(
            Claim.above(
                "Without the weights of the negatives accuracy falls.",
                (CACR_4.name, "CIFAR-10"),
                (NO_NEGATIVE, "CIFAR-10"),
            ),
            Claim.above(
                "Without the weights of the positives it falls too.",
                (CACR_4.name, "CIFAR-10"),
                (NO_POSITIVE, "CIFAR-10"),
            ),
        ),
        paper={
            CACR_4.name: (85.94, 59.51, 85.59),
            NO_POSITIVE: (85.22, 58.74, 85.06),
            NO_NEGATIVE: (78.49, 47.88, 72.94),
            UAUR: (77.17, 44.24, 71.88),
        },
        needs=NEEDS,
    )
)
