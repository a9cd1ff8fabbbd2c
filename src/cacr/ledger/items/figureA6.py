"""Figure A6: accuracy against the number of positives.

Claim: more positives are better. The paper prints curves without numbers.
"""

from dataclasses import replace

from cacr.ledger.item import Claim, Item, Row, add
from cacr.ledger.items._small import CACR_4, NEEDS, small_columns, variant


def _positives(k: int) -> Row:
    return replace(variant(f"CACR (K={k})", CACR_4, views=k + 1), line="CACR", at=k)


add(
    Item(
        "figureA6",
        "accuracy against the number of positives",
        tuple(map(_positives, (1, 2, 4, 6, 8, 10))),
        small_columns("cifar10", "cifar100"),
        claims=(
            Claim.above(
                "Eight positives are better than one.", ("CACR (K=8)", "CIFAR-10"), ("CACR (K=1)", "CIFAR-10")
            ),
        ),
        needs=NEEDS,
        varied="positives per query, K",
    )
)
