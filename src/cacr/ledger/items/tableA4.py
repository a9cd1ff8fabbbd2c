"""Table A4: CACR without the weights of positives, of negatives, and without both (UAUR).

Claim: the weights of the negatives are what counts; those of the positives help a little.
The paper's first row has the numbers of t- = 2 (table A6), so at its scale all rows have this t-.
"""

from dataclasses import replace

from cacr.ledger.item import Claim, Item, add
from cacr.ledger.items._small import CACR_4, NEEDS, small_columns, variant

WHOLE = replace(CACR_4, paper={"t_neg": 2.0})
NO_POSITIVE, NO_NEGATIVE, UAUR = "without pi+", "without pi-", "without both (UAUR)"

add(
    Item(
        "tableA4",
        "CACR with and without its weights",
        (
            WHOLE,
            variant(NO_POSITIVE, WHOLE, pos_weights="uniform"),
            variant(NO_NEGATIVE, WHOLE, neg_weights="uniform"),
            variant(UAUR, WHOLE, pos_weights="uniform", neg_weights="uniform"),
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
