"""Table A2: six objectives on three small data sets, ResNet-50, 400 epochs.

Claim: what holds with AlexNet holds with ResNet-50.
"""

from dataclasses import replace

from cacr.ledger.item import Claim, Item, add
from cacr.ledger.items._small import CACR_4, CL, NEEDS, SIX, small_columns

KINDS = ("cl", "au", "hn", "cacr-k1", "cmc", "cacr-k4")

add(
    Item(
        "tableA2",
        "six objectives on small data sets, ResNet-50",
        tuple(
            replace(
                row,
                recipe=f"{{data}}-resnet50-{kind}",
                settings={**row.settings, "encoder": "resnet10t", "width": 1.0, "weights": "paper"},
            )
            for row, kind in zip(SIX, KINDS, strict=True)
        ),
        small_columns("cifar10", "cifar100", "stl10", protocol="linear-hcl"),
        claims=(
            Claim.above(
                "With four positives CACR is above CL.", (CACR_4.name, "CIFAR-10"), (CL.name, "CIFAR-10")
            ),
        ),
        paper={
            "CL (SimCLR)": (88.70, 62.00, 84.60),
            "AU-CL": (88.63, 62.57, 83.81),
            "HN-CL": (89.02, 62.96, 84.29),
            "CACR (K=1)": (90.97, 62.98, 88.42),
            "CMC (K=4)": (90.05, 65.19, 91.40),
            "CACR (K=4)": (92.89, 66.52, 93.04),
        },
        needs=NEEDS.replace("about 2 GPU hours", "about 20 GPU hours"),
    )
)
