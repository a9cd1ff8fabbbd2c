"""Table A10: seconds of a step of each objective in MoCo v2's framework, ResNet-50 at 224 px.

Claim: more positives cost CACR little, and CL with four positives much more.
"""

from cacr.ledger.item import Claim, Column, Item, Row, add
from cacr.ledger.items._large import moco_row

STEPS = 100
ROWS: tuple[tuple[Row, int, float], ...] = (
    (moco_row("CL", "one-way", objective="info_nce", views=2), 256, 0.837),
    (moco_row("AU-CL", "au", objective="align_uniform", views=2), 256, 0.840),
    (moco_row("HN-CL", "hn", objective="hard_negative", views=2), 256, 0.889),
    (moco_row("CACR (K=1)", "cacr-k1", objective="cacr", views=2), 256, 0.871),
    (moco_row("CL (K=4)", "cmc", objective="cmc", views=5), 64, 3.550),
    (moco_row("CACR (K=2)", "cacr-k4", objective="cacr", views=3), 128, 0.996),
    (moco_row("CACR (K=3)", "cacr-k4", objective="cacr", views=4), 64, 1.017),
    (moco_row("CACR (K=4)", "cacr-k4", objective="cacr", views=5), 64, 1.342),
)

add(
    Item(
        "tableA10",
        "seconds of a step in MoCo v2's framework",
        tuple(
            Row(
                row.name,
                row.settings,
                row.recipe,
                {"batch_size": batch, "views": row.settings["views"], "max_steps": STEPS},
            )
            for row, batch, _ in ROWS
        ),
        (Column("a step", "imagenet"),),
        claims=(
            Claim.above(
                "With four positives a step of CL takes longer than one of CACR.",
                ("CL (K=4)", "a step"),
                ("CACR (K=4)", "a step"),
            ),
        ),
        paper={row.name: (seconds,) for row, _, seconds in ROWS},
        needs="ImageNet-1K, and a GPU of 32 GB that does nothing else",
        no_mini="its batches of 224 px through ResNet-50 do not fit into a processor's time; table A7 is the small one",
        quantity="seconds of a step",
        unit="seconds",
        timed_steps=STEPS,
    )
)
