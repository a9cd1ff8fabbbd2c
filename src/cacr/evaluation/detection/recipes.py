"""Training recipes of detectors, by name: the settings of the paper's Table 7, and one for small data."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from cacr.registry import Registry
from cacr.training.optimization.schedules import Schedule

Model = Literal["fpn", "c4"]
BatchNorm = Literal["sync", "frozen"]
Optimizer = Literal["sgd", "adamw"]

GAMMA = 0.1
"""Factor on the learning rate at a milestone."""

WARMUP_START = 1e-3
"""Factor on the learning rate at the first step."""

ADAMW_RATE = 0.01
"""Learning rate of AdamW divided by that of SGD: 1e-4 to 2e-4, as in ViTDet."""


@dataclass(frozen=True)
class DetectionRecipe:
    """A complete training of a detector, for batches of ``batch_size`` images.

    Attributes:
        summary: One line for listings.
        model: ``fpn``, or ``c4``: the last stage of a ResNet in the head, followed by a norm.
        batch_size: Images per step, over all processes.
        lr: Peak learning rate.
        steps: Number of steps; None if ``epochs`` and ``least_steps`` decide.
        epochs: Passes over the training images, if ``steps`` is None.
        least_steps: Smallest number of steps.
        milestones: Shares of the steps after which the rate is divided by ten.
        warmup: Number of steps in which the rate rises.
        sizes: Shorter sides of training images to choose from, in pixels.
        test_size: Shorter side of test images.
        max_size: Longest side of any image.
        proposals: Number of boxes per image that the head is trained on.
        channels: Number of channels of the pyramid's maps.
        precise: Number of training images for the final batch-norm statistics; 0: use the running statistics.
        optimizer: ``sgd``, or ``adamw``, which transformers need.
    """

    summary: str
    model: Model
    batch_size: int
    lr: float
    steps: int | None
    milestones: tuple[float, ...]
    warmup: int
    sizes: tuple[int, ...]
    test_size: int
    max_size: int = 1333
    proposals: int = 512
    channels: int = 256
    precise: int = 3200
    epochs: int = 0
    least_steps: int = 0
    optimizer: Optimizer = "sgd"

    def __post_init__(self) -> None:
        # listings use the first line of the docstring
        object.__setattr__(self, "__doc__", self.summary)

    def with_batch(self, batch_size: int) -> "DetectionRecipe":
        """The recipe for another batch size: the rate grows in proportion, steps and warm-up shrink."""
        scale = batch_size / self.batch_size
        return replace(
            self,
            batch_size=batch_size,
            lr=self.lr * scale,
            steps=None if self.steps is None else math.ceil(self.steps / scale),
            warmup=math.ceil(self.warmup / scale),
        )

    def with_adamw(self) -> "DetectionRecipe":
        """The recipe for a transformer: AdamW, with a suitable rate."""
        return replace(self, optimizer="adamw", lr=ADAMW_RATE * self.lr)

    def with_images(self, images: int) -> "DetectionRecipe":
        """The recipe with its number of steps, for ``images`` training images."""
        steps = self.steps
        if steps is None:
            steps = max(self.least_steps, math.ceil(self.epochs * images / self.batch_size))
        return replace(self, steps=steps, warmup=min(self.warmup, steps // 10))

    def schedule(self) -> Schedule:
        """Factor on the learning rate by step: a linear rise, then drops at the milestones."""
        steps, warmup = self.steps or 1, self.warmup

        def factor(step: int) -> float:
            rise = 1.0 if step >= warmup else WARMUP_START + (1 - WARMUP_START) * step / warmup
            return rise * GAMMA ** sum(step >= round(share * steps) for share in self.milestones)

        return factor


DETECTION_RECIPES: Registry[DetectionRecipe] = Registry("detector recipe")

_COCO_SIZES = tuple(range(640, 801, 32))


def _add(name: str, recipe: DetectionRecipe) -> None:
    DETECTION_RECIPES.register(name)(recipe)


_add(
    "mini",
    DetectionRecipe(
        "small data on small machines: 12 passes and at least 300 steps, images of 192 to 256 pixels",
        model="fpn",
        batch_size=4,
        lr=0.01,
        steps=None,
        epochs=12,
        least_steps=300,
        milestones=(3 / 4, 11 / 12),
        warmup=100,
        sizes=(192, 224, 256),
        test_size=224,
        max_size=448,
        proposals=128,
        channels=128,
        precise=128,
    ),
)
_add(
    "voc-c4-24k",
    DetectionRecipe(
        "Table 7, Pascal VOC 07+12: Faster R-CNN C4, 24,000 steps of 16 images",
        model="c4",
        batch_size=16,
        lr=0.02,
        steps=24_000,
        milestones=(18 / 24, 22 / 24),
        warmup=100,
        sizes=tuple(range(480, 801, 32)),
        test_size=800,
    ),
)
_add(
    "coco-c4-1x",
    DetectionRecipe(
        "Table 7, COCO: Mask R-CNN C4, 90,000 steps of 16 images",
        model="c4",
        batch_size=16,
        lr=0.02,
        steps=90_000,
        milestones=(6 / 9, 8 / 9),
        warmup=1000,
        sizes=_COCO_SIZES,
        test_size=800,
    ),
)
_add(
    "coco-c4-2x",
    replace(
        DETECTION_RECIPES["coco-c4-1x"],
        summary="COCO as in MoCo's own file: Mask R-CNN C4, 180,000 steps of 16 images",
        steps=180_000,
    ),
)
_add(
    "coco-fpn-1x",
    replace(
        DETECTION_RECIPES["coco-c4-1x"],
        summary="COCO with a pyramid: 90,000 steps of 16 images",
        model="fpn",
    ),
)


@dataclass(frozen=True)
class Table7Group:
    """One group of columns of the paper's Table 7.

    Attributes:
        protocol: The protocol of ``cacr evaluate``.
        data: Its ``--data``, with ``PATH`` for the folder of the data set.
        settings: Settings of the protocol.
        measures: The paper's columns, by the names of the metrics in a result.
    """

    protocol: str
    data: str
    settings: Mapping[str, Any]
    measures: tuple[str, ...]


TABLE_7: dict[str, Table7Group] = {
    "voc-detection": Table7Group(
        "detection", "voc:PATH", {"recipe": "voc-c4-24k"}, ("VOC07 AP50", "VOC07 AP", "VOC07 AP75")
    ),
    "coco-detection": Table7Group(
        "segmentation", "coco:PATH", {"recipe": "coco-c4-1x"}, ("box AP50", "box AP", "box AP75")
    ),
    "coco-segmentation": Table7Group(
        "segmentation", "coco:PATH", {"recipe": "coco-c4-1x"}, ("mask AP50", "mask AP", "mask AP75")
    ),
}
"""Both groups of COCO come from one training: a Mask R-CNN gives boxes and masks."""
