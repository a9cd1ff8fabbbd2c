"""Instance segmentation: a Mask R-CNN trained on the encoder."""

from typing import ClassVar

from cacr.data.masks import require_pycocotools
from cacr.evaluation.detection.measure import detect
from cacr.evaluation.detection.metrics import coco_measures
from cacr.evaluation.detection.settings import DetectorSettings
from cacr.evaluation.detection.task import DetectionTask, remove_checkpoints
from cacr.evaluation.registry import PROTOCOLS, Needs, Score


class SegmentationSettings(DetectorSettings):
    """A Mask R-CNN on the encoder."""

    needs: ClassVar[Needs] = "masks"


@PROTOCOLS.register("segmentation")
def segmentation(task: DetectionTask, settings: SegmentationSettings) -> Score:
    """Instance segmentation: a Mask R-CNN trained on the encoder; COCO's AP of masks and boxes (extra: detection)."""
    require_pycocotools()
    detections = detect(task, settings, protocol="segmentation", masks=True)
    truth, categories = task.data.test.objects, task.data.categories
    masks, by_class = coco_measures(truth, detections.found, categories, "segm")
    boxes, boxes_by_class = coco_measures(truth, detections.found, categories, "bbox")
    remove_checkpoints(detections.checkpoints)
    return Score(
        masks.pop("AP"),
        details=detections.details | {"per_class": by_class, "per_class_boxes": boxes_by_class},
        metric="mask AP",
        also={f"mask {name}": value for name, value in masks.items()}
        | {f"box {name}": value for name, value in boxes.items()},
    )
