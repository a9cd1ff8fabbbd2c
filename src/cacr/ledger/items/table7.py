"""Table 7: objects found by detectors that begin with ResNet-50s from ImageNet-1K: Pascal VOC, COCO's boxes and masks.

Claim: CACR's encoders give better detectors than those of other contrastive systems.
Protocol: the recipes of docs/reference/protocols.md (C4, 24,000 and 90,000 steps of 16 images). The paper does not say
how long encoders were trained: here as long as their recipes say (CACR, AU-CL, MoCo v2 and SimSiam 200 epochs, as in
table 5; SwAV 800, the others 1,000). Both groups of COCO come from one training. The paper
quotes the rows without a recipe; its *scratch* is the row *before training*, which every table has. Pixels have no
feature maps.
"""

from cacr.evaluation.detection.recipes import TABLE_7
from cacr.ledger.item import Claim, Column, Item, Row, add
from cacr.ledger.items._large import BARLOW_TWINS, BYOL, K1, K4, NEEDS, SIMCLR, SIMSIAM, SWAV, moco_row

TITLES = {"voc-detection": "VOC", "coco-detection": "COCO boxes", "coco-segmentation": "COCO masks"}
SMOKE = {
    "data": "digit-scenes",
    "protocol": ["detection"],
    "steps": 2,
    "detection.batch_size": 2,
    "sizes": [64],
    "test_size": 64,
    "max_size": 64,
    "proposals": 8,
    "precise": 0,
}


def _columns() -> tuple[Column, ...]:
    return tuple(
        Column(
            f"{TITLES[name]} {measure.split()[-1]}",
            "imagenet",
            {},
            {"data": group.data.partition(":")[0], "protocol": [group.protocol], **group.settings},
            # A segmentation's own score is the AP of masks.
            measure=group.protocol if measure == "mask AP" else f"{group.protocol} {measure}",
            references=("untrained",),
            smoke=SMOKE,
        )
        for name, group in TABLE_7.items()
        for measure in group.measures
    )


MOCO, CACR = "MoCo v2", "CACR (K=4)"

add(
    Item(
        "table7",
        "detection and segmentation on Pascal VOC and COCO, ResNet-50",
        (
            Row("scratch"),
            Row("supervised"),
            BYOL,
            SWAV,
            SIMSIAM,
            BARLOW_TWINS,
            SIMCLR,
            moco_row(MOCO, "one-way", objective="info_nce", views=2),
            moco_row("AU-CL", "au", objective="align_uniform", views=2),
            Row("CACR (K=1)", K1, "imagenet-moco-v2-cacr-k1"),
            Row(CACR, K4, "imagenet-moco-v2-cacr-k4"),
        ),
        _columns(),
        claims=(
            Claim.above(
                "On VOC detectors on CACR with four positives find more than those on MoCo v2.",
                (CACR, "VOC AP"),
                (MOCO, "VOC AP"),
            ),
        ),
        paper={
            "scratch": (60.2, 33.8, 33.1, 44.0, 26.4, 27.8, 46.9, 29.3, 30.8),
            "supervised": (81.3, 53.5, 58.8, 58.2, 38.2, 41.2, 54.7, 33.3, 35.2),
            "BYOL": (81.4, 55.3, 61.1, 57.8, 37.9, 40.9, 54.3, 33.2, 35.0),
            "SwAV": (81.5, 55.4, 61.4, 57.6, 37.6, 40.3, 54.2, 33.1, 35.1),
            "SimSiam": (82.4, 57.0, 63.7, 59.3, 39.2, 42.1, 56.0, 34.4, 36.7),
            "Barlow Twins": (82.6, 56.8, 63.4, 59.0, 39.2, 42.5, 56.0, 34.3, 36.5),
            "SimCLR": (81.8, 55.5, 61.4, 57.7, 37.9, 40.9, 54.6, 33.3, 35.3),
            MOCO: (82.3, 57.0, 63.3, 58.8, 39.2, 42.5, 55.5, 34.3, 36.6),
            "AU-CL": (82.5, 57.2, 63.8, 58.4, 39.1, 42.2, 55.7, 34.1, 36.3),
            "CACR (K=1)": (82.8, 57.8, 64.2, 58.9, 39.3, 42.5, 55.6, 34.4, 36.7),
            CACR: (82.8, 57.9, 64.9, 59.8, 40.0, 42.7, 55.8, 35.0, 37.0),
        },
        needs=f"{NEEDS}; VOC 07+12 in DATA_ROOT/voc, COCO 2017 in DATA_ROOT/coco",
        no_mini="its detectors and their ResNet-50s take days of several GPUs; docs/results.md has what small "
        "encoders are worth to detectors on small data (benchmarks/detection.py)",
        quantity="AP (%)",
    )
)
