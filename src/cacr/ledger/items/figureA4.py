"""Figure A4: t-SNE of a query's batch at three epochs, CL and CACR.

A picture, drawn from run folders: nothing that a number could test.
"""

from cacr.ledger.item import Item, add
from cacr.ledger.items._small import CACR_1, CL, NEEDS, small_columns

add(
    Item(
        "figureA4",
        "t-SNE of a query's batch at three epochs, CL and CACR",
        (CL, CACR_1),
        small_columns("cifar10"),
        needs=NEEDS,
        draws=("tsne",),
    )
)
