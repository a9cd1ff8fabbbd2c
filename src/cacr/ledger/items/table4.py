"""Table 4: linear accuracy on ImageNet-1K, ResNet-50, against systems with and without negatives.

Claim: CACR is above other contrastive systems. The paper quotes all rows but its own; here most of them are recipes.
"""

from dataclasses import replace

from cacr.ledger.item import Claim, Item, Row, add
from cacr.ledger.items._large import (
    BARLOW_TWINS,
    BYOL,
    FNC,
    K1,
    K4,
    NEEDS,
    NO_MINI,
    SIMCLR,
    SIMSIAM,
    SWAV,
    column,
)

add(
    Item(
        "table4",
        "linear accuracy on ImageNet-1K against other systems, ResNet-50",
        (
            BARLOW_TWINS,
            replace(SIMSIAM, paper={"epochs": 800}),
            SWAV,
            Row("SwAV, multi-crop", {"method": "swav"}, "imagenet-swav-multicrop"),
            BYOL,
            SIMCLR,
            Row(
                "MoCo v2",
                {"method": "moco_v2", "queue_size": 64},
                "imagenet-moco-v2-one-way",
                {"epochs": 800},
            ),
            Row("ASCL", {"method": "ascl", "queue_size": 64}),
            FNC,
            Row("AdaCLR", {"method": "adaclr"}),
            Row("CACR (K=1)", K1, "imagenet-moco-v2-cacr-k1", {"epochs": 800}),
            Row("CACR (K=4)", K4, "imagenet-moco-v2-cacr-k4", {"epochs": 800}),
        ),
        (column("accuracy"),),
        claims=(
            Claim.above(
                "CACR with four positives is above MoCo v2.",
                ("CACR (K=4)", "accuracy"),
                ("MoCo v2", "accuracy"),
            ),
        ),
        paper={
            "Barlow Twins": (73.2,),
            "SimSiam": (71.3,),
            "SwAV": (71.8,),
            "SwAV, multi-crop": (75.3,),
            "BYOL": (74.3,),
            "SimCLR": (71.7,),
            "MoCo v2": (72.2,),
            "ASCL": (71.5,),
            "FNC, multi-crop": (74.4,),
            "AdaCLR": (72.3,),
            "CACR (K=1)": (73.7,),
            "CACR (K=4)": (74.7,),
        },
        needs=NEEDS,
        no_mini=NO_MINI,
    )
)
