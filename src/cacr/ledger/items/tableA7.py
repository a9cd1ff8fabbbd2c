"""Table A7: seconds of a step against the number of positives.

Claim: a step takes little more with more positives. The authors' code is quadratic in K (it takes each pair of views
once); the paper's equation, negatives of the same view, is linear. Both are measured.
"""

from cacr.ledger.item import Item, add
from cacr.ledger.items._small import CACR_4, small_columns, variant

VALUES = (1, 2, 4, 6, 8, 10)
PAPER = (0.0021, 0.0026, 0.0035, 0.0045, 0.0054, 0.0064)
NAMES = {"same": "the paper's equation", "cross_upper": "the authors' code"}

add(
    Item(
        "tableA7",
        "seconds of a step against the number of positives",
        tuple(
            variant(f"K={k}, {title}", CACR_4, views=k + 1, negatives=negatives)
            for negatives, title in NAMES.items()
            for k in VALUES
        ),
        small_columns("cifar10"),
        paper={
            f"K={k}, {NAMES['cross_upper']}": (seconds,) for k, seconds in zip(VALUES, PAPER, strict=True)
        },
        needs="a GPU that does nothing else (the paper's: V100)",
        quantity="seconds of a step",
    )
)
