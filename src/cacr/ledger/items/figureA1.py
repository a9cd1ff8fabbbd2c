"""Figure A1: figure 3 on CIFAR-100.

Claim: as in figure 3. The paper prints curves without numbers.
"""

from cacr.ledger.item import add
from cacr.ledger.items._entropy import entropy_item
from cacr.ledger.items._small import small_columns

add(
    entropy_item(
        "figureA1",
        "conditional entropy of negatives against epochs, CIFAR-100",
        (*small_columns("cifar100"), *small_columns("cifar100", imbalance="linear")),
        unbalanced="CIFAR-100, linear",
        no_mini="mini trains on CIFAR-10, where figure3 shows the same",
    )
)
