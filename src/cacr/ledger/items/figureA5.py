"""Figure A5: accuracy against the number of images in a batch.

Claim: CACR with four positives is above the other objectives at every size; with 256 images it is 0.4 to 1.2 points
above CMC. The paper prints curves without numbers.
"""

from dataclasses import replace

from cacr.ledger.item import Claim, Item, Row, add
from cacr.ledger.items._small import NEEDS, SIX, small_columns, variant


def _batches(row: Row) -> tuple[Row, ...]:
    """A system with every batch size of the paper."""
    return tuple(
        replace(variant(f"{row.name}, batches of {size}", row, batch_size=size), line=row.name, at=size)
        for size in (64, 128, 256, 512, 768)
    )


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
