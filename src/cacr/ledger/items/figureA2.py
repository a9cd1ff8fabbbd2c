"""Figure A2: conditional entropy of negatives against epochs, exponentially unbalanced CIFAR-10 and CIFAR-100.

Claim: as in figure 3. The paper prints curves without numbers. Its cells are those of table 2.
"""

from cacr.ledger.item import add
from cacr.ledger.items._entropy import entropy_item
from cacr.ledger.items._small import small_columns

add(
    entropy_item(
        "figureA2",
        "conditional entropy of negatives against epochs, exponential imbalance",
        small_columns("cifar10", "cifar100", imbalance="exponential"),
        unbalanced="CIFAR-10, exponential",
    )
)
