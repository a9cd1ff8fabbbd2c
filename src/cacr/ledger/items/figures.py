"""The figures: conditional entropy, batch size, number of positives, accuracy against epochs, and two pictures.

The pictures, A3 and A4, claim nothing that a number could test.
"""

from dataclasses import replace

from cacr.ledger.item import Claim, Item, Row, add
from cacr.ledger.items._small import CACR_1, CACR_4, CL, CMC, NEEDS, SIX, small_columns, variant
from cacr.ledger.scales import STEPS

ENTROPY = ("entropy", "max_entropy", "negative_distance", "uniformity")


def _entropy(name: str, title: str, *rules: tuple[str, str], no_mini: str = "") -> None:
    columns = tuple(column for data, rule in rules for column in small_columns(data, imbalance=rule))
    where = columns[-1].name
    claim = Claim.above(
        f"On {where}, CACR with four positives ends with a higher conditional entropy than CL.",
        (CACR_4.name, where),
        (CL.name, where),
        curve="entropy",
    )
    add(Item(name, title, SIX, columns, (claim,), needs=NEEDS, no_mini=no_mini, curves=ENTROPY))


_entropy(
    "figure3",
    "conditional entropy of negatives against epochs, CIFAR-10",
    ("cifar10", "none"),
    ("cifar10", "linear"),
)
_entropy(
    "figureA1",
    "conditional entropy of negatives against epochs, CIFAR-100",
    ("cifar100", "none"),
    ("cifar100", "linear"),
    no_mini="mini trains on CIFAR-10, where figure3 shows the same",
)
_entropy(
    "figureA2",
    "conditional entropy of negatives against epochs, exponential imbalance",
    ("cifar10", "exponential"),
    ("cifar100", "exponential"),
)

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


def _batches(row: Row) -> tuple[Row, ...]:
    """A system with every batch size of the paper."""
    return tuple(
        replace(variant(f"{row.name}, batches of {size}", row, batch_size=size), line=row.name, at=size)
        for size in (64, 128, 256, 512, 768)
    )


def _positives(k: int) -> Row:
    return replace(variant(f"CACR (K={k})", CACR_4, views=k + 1), line="CACR", at=k)


add(
    Item(
        "figureA5",
        "accuracy against the number of images in a batch",
        tuple(point for row in SIX for point in _batches(row)),
        small_columns("cifar10", "cifar100", "stl10"),
        claims=(
            Claim.above(
                "With 256 images in a batch CACR with four positives is above CMC.",
                ("CACR (K=4), batches of 256", "CIFAR-10"),
                ("CMC (K=4), batches of 256", "CIFAR-10"),
            ),
        ),
        needs=NEEDS,
        varied="images per batch",
    )
)
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
add(
    Item(
        "figureA7",
        "linear accuracy against epochs",
        tuple(
            replace(
                row,
                paper={**row.paper, "probe_every_epochs": 10},
                settings={**row.settings, "probe_every_steps": STEPS // 4},
            )
            for row in SIX
        ),
        small_columns("cifar10", "cifar100", "stl10"),
        claims=(
            Claim.above(
                "In the last probe CACR with four positives is above CMC.",
                (CACR_4.name, "CIFAR-10"),
                (CMC.name, "CIFAR-10"),
                curve="probe",
            ),
        ),
        needs=NEEDS,
        curves=("probe",),
    )
)
