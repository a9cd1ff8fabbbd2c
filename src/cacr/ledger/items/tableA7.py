"""Table A7: seconds of a step against the number of positives.

Claim: a step takes little more with more positives. The authors' code is quadratic in K (it takes each pair of views
once); the paper's equation, negatives of the same view, is linear. Both are measured, and beside them the other
objectives, with as many views per step as CACR with four positives.
"""

from cacr.ledger.item import Claim, Item, add
from cacr.ledger.items._small import AU_CL, CACR_4, CL, CMC, HN_CL, small_columns, variant

VALUES = (1, 2, 4, 6, 8, 10)
PAPER = (0.0021, 0.0026, 0.0035, 0.0045, 0.0054, 0.0064)
NAMES = {"same": "the paper's equation", "cross_upper": "the authors' code"}
CACR_ROWS = tuple(
    variant(f"K={k}, {title}", CACR_4, views=k + 1, negatives=negatives)
    for negatives, title in NAMES.items()
    for k in VALUES
)

add(
    Item(
        "tableA7",
        "seconds of a step against the number of positives",
        (*CACR_ROWS, CL, AU_CL, HN_CL, CMC),
        small_columns("cifar10"),
        claims=(
            Claim.above(
                "With ten positives a step of the authors' code takes longer than one of the paper's equation.",
                (f"K=10, {NAMES['cross_upper']}", "CIFAR-10"),
                (f"K=10, {NAMES['same']}", "CIFAR-10"),
            ),
        ),
        paper={
            f"K={k}, {NAMES['cross_upper']}": (seconds,) for k, seconds in zip(VALUES, PAPER, strict=True)
        },
        needs="a GPU that does nothing else (the paper's: V100)",
        quantity="seconds of a step",
        unit="seconds",
        timed_steps=60,
    )
)
