"""Table 6: transfer to the twenty sets of ELEVATER, ViT-B/16, few and all labels, linear and fine-tuned.

Claim: CACR transfers better than MoCo v3. Means over the sets are typed from the paper's last columns.
"""

from cacr.ledger.item import Claim, Column, Item, Row, add
from cacr.ledger.items._large import NEEDS, NO_MINI

MOCO, CACR = "MoCo v3", "CACR"
PROTOCOLS = {
    "5-shot fine-tuning": "fewshot-finetune",
    "5-shot linear": "fewshot",
    "full fine-tuning": "transfer-finetune",
    "full linear": "transfer",
}

add(
    Item(
        "table6",
        "transfer to the sets of ELEVATER, ViT-B/16",
        (
            Row(
                MOCO,
                {"framework": "momentum", "objective": "info_nce", "views": 2},
                "imagenet-moco-v3-vit-b16-infonce",
            ),
            Row(
                CACR,
                {"framework": "momentum", "objective": "cacr", "views": 2},
                "imagenet-moco-v3-vit-b16-cacr",
            ),
        ),
        tuple(
            Column(
                name,
                "imagenet",
                {},
                {"data": "suite:elevater", "protocol": [protocol], "view": "elevater"}
                | ({"repeats": 3} if protocol.startswith("transfer") else {}),
            )
            for name, protocol in PROTOCOLS.items()
        ),
        claims=(
            Claim.above(
                "With five labels per class a linear classifier on CACR is above one on MoCo v3.",
                (CACR, "5-shot linear"),
                (MOCO, "5-shot linear"),
            ),
        ),
        paper={MOCO: (39.3, 50.2, 77.7, 74.9), CACR: (46.5, 54.1, 78.8, 75.3)},
        needs=f"{NEEDS}; the twenty sets in DATA_ROOT/elevater",
        no_mini=NO_MINI,
    )
)
