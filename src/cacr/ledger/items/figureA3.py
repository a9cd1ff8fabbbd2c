"""Figure A3: weights of a query's positives and negatives.

A picture, drawn from a run folder: nothing that a number could test.
"""

from cacr.ledger.item import Item, add
from cacr.ledger.items._small import CACR_4, NEEDS, small_columns

add(
    Item(
        "figureA3",
        "weights of a query's positives and negatives",
        (CACR_4,),
        small_columns("cifar10"),
        needs=NEEDS,
        draws=("weights",),
    )
)
