"""Shared parts of the large-scale items: systems on ImageNet by their recipes, and their evaluation."""

from typing import Any

from cacr.ledger.item import Column, Row

NO_MINI = "it takes days of several GPUs per cell, and two cores cannot answer it in small"
NEEDS = "ImageNet-1K (150 GB) in DATA_ROOT/imagenet; 8 GPUs of 32 GB, days per cell"

LINEAR_MOCO: dict[str, Any] = {"data": "imagenet", "protocol": ["linear-moco"]}
LINEAR_MOCO_V3: dict[str, Any] = {"data": "imagenet", "protocol": ["linear-mocov3"]}
FINETUNE: dict[str, Any] = {"data": "imagenet", "protocol": ["finetune"]}
FINETUNE_VIT: dict[str, Any] = FINETUNE | {
    "recipe": "deit",
    "search": "quick",
    "epochs": 150,
    "finetune.batch_size": 1024,
    "warmup": 5 / 150,
}
"""Fine-tuning as in MoCo v3: DeiT's settings, 150 epochs of ViT-B."""

BARLOW_TWINS = Row("Barlow Twins", {"method": "barlow_twins"}, "imagenet-barlow-twins")
SIMSIAM = Row("SimSiam", {"method": "simsiam"}, "imagenet-simsiam")
SWAV = Row("SwAV", {"method": "swav"}, "imagenet-swav")
BYOL = Row("BYOL", {"method": "byol"}, "imagenet-byol")
SIMCLR = Row("SimCLR", {"method": "simclr"}, "imagenet-simclr")
FNC = Row("FNC, multi-crop", {"method": "fnc"}, "imagenet-fnc-multicrop")

K1: dict[str, Any] = {"framework": "queue", "objective": "cacr", "views": 2, "queue_size": 64}
K4: dict[str, Any] = K1 | {"views": 5}


def moco_row(name: str, recipe: str, **settings: Any) -> Row:
    """A system in MoCo v2's framework; ``{data}`` is the data it is trained on."""
    return Row(name, {"framework": "queue", "queue_size": 64, **settings}, "{data}-moco-v2-" + recipe)


def column(name: str, data: str = "imagenet", *, drop_from: str = "") -> Column:
    """Evaluate encoders trained on some data on ImageNet-1K, by MoCo's probe."""
    return Column(name, data, {}, LINEAR_MOCO, drop_from=drop_from)
