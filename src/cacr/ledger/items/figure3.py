"""Figure 3: conditional entropy of negatives against epochs, regular and linearly unbalanced CIFAR-10.

Claim: entropy grows while the encoder learns, fastest with four positives, and stays higher with CACR if data is
unbalanced. The paper prints curves without numbers. Its cells are those of table 2.
"""

from cacr.ledger.item import add
from cacr.ledger.items._entropy import entropy_item
from cacr.ledger.items._small import small_columns

add(
    entropy_item(
        "figure3",
        "conditional entropy of negatives against epochs, CIFAR-10",
        (*small_columns("cifar10"), *small_columns("cifar10", imbalance="linear")),
        unbalanced="CIFAR-10, linear",
    )
)
