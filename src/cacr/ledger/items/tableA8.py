"""Table A8: six objectives in MoCo v2's framework, ImageNet-100 and ImageNet-1K, 200 epochs.

Claim: CACR is above the other objectives in the same framework.
"""

from cacr.ledger.item import Claim, Column, Item, add
from cacr.ledger.items._large import LINEAR_MOCO, NEEDS, NO_MINI, moco_row

SMALL, LARGE = "ImageNet-100", "ImageNet-1K"

add(
    Item(
        "tableA8",
        "six objectives in MoCo v2's framework",
        (
            moco_row("MoCo v2 (CL)", "one-way", objective="info_nce", views=2),
            moco_row("AU-CL", "au", objective="align_uniform", views=2),
            moco_row("HN-CL", "hn", objective="hard_negative", views=2),
            moco_row("CACR (K=1)", "cacr-k1", objective="cacr", views=2),
            moco_row("CMC (CL, K=4)", "cmc", objective="cmc", views=5),
            moco_row("CACR (K=4)", "cacr-k4", objective="cacr", views=5),
        ),
        (
            Column(SMALL, "imagenet100", {}, LINEAR_MOCO | {"data": "imagenet100"}),
            Column(LARGE, "imagenet", {}, LINEAR_MOCO),
        ),
        claims=(
            Claim.above(
                "CACR with one positive is above CL.", ("CACR (K=1)", SMALL), ("MoCo v2 (CL)", SMALL)
            ),
            Claim.above(
                "CACR with four positives is above CMC.", ("CACR (K=4)", SMALL), ("CMC (CL, K=4)", SMALL)
            ),
        ),
        paper={
            "MoCo v2 (CL)": (77.54, 67.50),
            "AU-CL": (77.66, 67.69),
            "HN-CL": (76.34, 67.41),
            "CACR (K=1)": (79.40, 68.40),
            "CMC (CL, K=4)": (78.84, 69.45),
            "CACR (K=4)": (80.46, 70.35),
        },
        needs=NEEDS,
        no_mini=NO_MINI,
    )
)
