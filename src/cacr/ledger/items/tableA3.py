"""Table A3: the signs of the weights, CIFAR-10, four positives, 128 images per batch.

Claim: far positives and near negatives are the ones to weigh.
"""

from cacr.ledger.item import Claim, Item, add
from cacr.ledger.items._small import CACR_4, NEEDS, small_columns, variant

AS_IS = "far positives, near negatives (CACR)"
NEAR_POSITIVES = "near positives, near negatives"
FAR_NEGATIVES = "far positives, far negatives"
BOTH = "near positives, far negatives"

add(
    Item(
        "tableA3",
        "signs of the weights, CIFAR-10",
        (
            variant(AS_IS, CACR_4),
            variant(NEAR_POSITIVES, CACR_4, pos_weights="flipped"),
            variant(FAR_NEGATIVES, CACR_4, neg_weights="flipped"),
            variant(BOTH, CACR_4, pos_weights="flipped", neg_weights="flipped"),
        ),
        small_columns("cifar10"),
        claims=(
            Claim.above(
                "Weighing near negatives is better than weighing far ones.",
                (AS_IS, "CIFAR-10"),
                (FAR_NEGATIVES, "CIFAR-10"),
            ),
            Claim.above(
                "Weighing far positives is better than weighing near ones.",
                (AS_IS, "CIFAR-10"),
                (NEAR_POSITIVES, "CIFAR-10"),
            ),
        ),
        paper={
            AS_IS: (86.48,),
            NEAR_POSITIVES: (83.91,),
            FAR_NEGATIVES: (79.46,),
            BOTH: (74.91,),
        },
        needs=NEEDS,
    )
)
