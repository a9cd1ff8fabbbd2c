"""Object detection: a Faster R-CNN trained on the encoder."""

from typing import ClassVar

from cacr.data.masks import require_pycocotools
from cacr.evaluation.detection.measure import detect
from cacr.evaluation.detection.metrics import coco_measures, voc_measures
from cacr.evaluation.detection.settings import DetectorSettings
from cacr.evaluation.detection.task import DetectionTask, remove_checkpoints
from cacr.evaluation.registry import PROTOCOLS, Needs, Score


class DetectionSettings(DetectorSettings):
    """A Faster R-CNN on the encoder."""

    needs: ClassVar[Needs] = "boxes"


@PROTOCOLS.register("detection")
def detection(task: DetectionTask, settings: DetectionSettings) -> Score:
    """Object detection: a Faster R-CNN trained on the encoder; AP of COCO and VOC (extra: detection)."""
    require_pycocotools()
    detections = detect(task, settings, protocol="detection", masks=False)
    truth, categories = task.data.test.objects, task.data.categories
    overall, by_class = coco_measures(truth, detections.found, categories, "bbox")
    voc = voc_measures(truth, detections.found, len(categories))
    remove_checkpoints(detections.checkpoints)
    return Score(
        overall.pop("AP"),
        details=detections.details | {"per_class": by_class},
        metric="AP",
        also=overall | voc,
    )
