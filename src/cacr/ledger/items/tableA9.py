"""Table A9: linear accuracy on ImageNet-1K after 100 to 1,000 epochs, ResNet-50.

Claim: CACR is competitive at every length. The other systems' numbers are quoted from their papers.
"""

from cacr.ledger.item import Claim, Column, Item, Row, add
from cacr.ledger.items._large import (
    BARLOW_TWINS,
    BYOL,
    FNC,
    K4,
    LINEAR_MOCO,
    NEEDS,
    NO_MINI,
    SIMCLR,
    SIMSIAM,
    SWAV,
)

LENGTHS = (100, 200, 400, 800, 1000)

add(
    Item(
        "tableA9",
        "accuracy on ImageNet-1K against epochs",
        (
            BYOL,
            BARLOW_TWINS,
            SWAV,
            SIMSIAM,
            SIMCLR,
            Row("MoCo v2", {"method": "moco_v2", "queue_size": 64}, "imagenet-moco-v2-symmetric"),
            FNC,
            Row("CACR", K4, "imagenet-moco-v2-cacr-k4"),
        ),
        tuple(Column(f"{length} epochs", "imagenet", {"epochs": length}, LINEAR_MOCO) for length in LENGTHS),
        claims=(
            Claim.above(
                "After 200 epochs CACR is above MoCo v2.", ("CACR", "200 epochs"), ("MoCo v2", "200 epochs")
            ),
        ),
        paper={
            "BYOL": (66.5, 70.6, 73.2, 74.3, None),
            "Barlow Twins": (None, None, None, None, 73.2),
            "SwAV": (66.5, 69.1, 70.7, 71.8, None),
            "SimSiam": (68.1, 70.0, 70.8, 71.3, None),
            "SimCLR": (66.5, 68.3, 69.8, 70.4, 71.7),
            "MoCo v2": (67.4, 69.9, 71.0, 72.2, None),
            "FNC, multi-crop": (70.4, None, None, None, 74.4),
            "CACR": (68.3, 70.4, 73.8, 74.0, 74.4),
        },
        needs=NEEDS,
        no_mini=NO_MINI,
    )
)
