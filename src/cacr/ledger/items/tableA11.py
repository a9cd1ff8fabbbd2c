"""Table A11: fine-tuning and linear accuracy on ImageNet-1K, ResNet-50 and ViT-B/16, MoCo v3's framework.

Claim: CACR is above MoCo v3 with both encoders, in both ways; a dagger marks multi-crop.
"""

from typing import Any

from cacr.ledger.item import Claim, Column, Item, Row, add
from cacr.ledger.items._large import FINETUNE, FINETUNE_VIT, LINEAR_MOCO_V3, NEEDS, NO_MINI

MOMENTUM = {"framework": "momentum", "views": 2}


def _columns(encoder: str, title: str, **settings: Any) -> tuple[Column, ...]:
    return (
        Column(
            f"{title}, fine-tuned",
            "imagenet",
            settings,
            FINETUNE_VIT if encoder == "vit-b16" else FINETUNE,
            part=encoder,
        ),
        Column(f"{title}, linear", "imagenet", settings, LINEAR_MOCO_V3, part=encoder),
    )


add(
    Item(
        "tableA11",
        "fine-tuning and linear probes on ImageNet-1K",
        (
            Row("SimCLR v2", {"method": "simclr_v2"}),
            Row("MoCo v3", MOMENTUM | {"objective": "info_nce"}, "imagenet-moco-v3-{part}-infonce"),
            Row("CACR", MOMENTUM | {"objective": "cacr"}, "imagenet-moco-v3-{part}-cacr"),
            Row("SwAV†", {"method": "swav"}),
            Row("CACR†", MOMENTUM | {"objective": "cacr"}, "imagenet-moco-v3-{part}-cacr-multicrop"),
        ),
        (*_columns("resnet50", "ResNet-50", epochs=800), *_columns("vit-b16", "ViT-B/16")),
        claims=(
            Claim.above(
                "A linear classifier on CACR's ViT is above one on MoCo v3's.",
                ("CACR", "ViT-B/16, linear"),
                ("MoCo v3", "ViT-B/16, linear"),
            ),
        ),
        paper={
            "SimCLR v2": (77.2, 71.7, 83.1, 73.9),
            "MoCo v3": (77.0, 73.8, 83.2, 76.5),
            "CACR": (78.1, 74.7, 83.4, 76.8),
            "SwAV†": (77.8, 75.3, 82.8, 71.6),
            "CACR†": (78.4, 75.3, 83.4, 77.1),
        },
        needs=NEEDS,
        no_mini=NO_MINI,
    )
)
