"""Table 5: linear accuracy on ImageNet-1K after pretraining on regular and unbalanced large sets, ResNet-50.

Claim: CACR loses least on unbalanced data.
"""

from cacr.ledger.item import Claim, Item, add
from cacr.ledger.items._large import NEEDS, NO_MINI, column, moco_row

MOCO, CACR = "MoCo v2", "CACR (K=4)"
REGULAR, UNBALANCED = "ImageNet-1K", "WebVision"

add(
    Item(
        "table5",
        "pretraining on ImageNet-1K, WebVision and ImageNet-22K, MoCo v2",
        (
            moco_row(MOCO, "one-way", objective="info_nce", views=2),
            moco_row("CACR (K=1)", "cacr-k1", objective="cacr", views=2),
            moco_row(CACR, "cacr-k4", objective="cacr", views=5),
        ),
        (
            column(REGULAR),
            column(UNBALANCED, "webvision", drop_from=REGULAR),
            column("ImageNet-22K", "imagenet22k", drop_from=REGULAR),
        ),
        claims=(
            Claim(
                "From regular to unbalanced data CACR with four positives loses less accuracy than MoCo v2.",
                {
                    (CACR, UNBALANCED): 1.0,
                    (CACR, REGULAR): -1.0,
                    (MOCO, UNBALANCED): -1.0,
                    (MOCO, REGULAR): 1.0,
                },
            ),
        ),
        paper={
            MOCO: (67.5, 62.3, 59.9),
            "CACR (K=1)": (69.5, 64.5, 61.9),
            CACR: (70.4, 66.1, 64.5),
        },
        needs=f"{NEEDS}; also WebVision and ImageNet-22K (1.5 TB)",
        no_mini=NO_MINI,
    )
)
