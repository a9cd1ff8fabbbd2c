"""Metrics of detections: COCO's average precision by pycocotools, and Pascal VOC's own."""

import contextlib
import io
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cacr.data.annotated import Objects
from cacr.data.masks import require_pycocotools
from cacr.evaluation.detection.found import Found

Kind = Literal["bbox", "segm"]

COCO_MEASURES = {"AP": 0, "AP50": 1, "AP75": 2, "AP small": 3, "AP medium": 4, "AP large": 5}
"""Index of each metric in the output of pycocotools."""

VOC_THRESHOLDS = tuple(np.linspace(0.5, 0.95, 10))

_IGNORED_AREA = -1.0
"""An area outside of every range: pycocotools then ignores the object."""


def coco_measures(
    truth: Sequence[Objects], found: Sequence[Found], categories: Sequence[str], kind: Kind
) -> tuple[dict[str, float], dict[str, float]]:
    """COCO's metrics over all classes, and the AP per class; classes without objects are left out.

    Args:
        truth: Objects of each image. A crowd may be found several times; difficult objects do not count.
        found: Detections of each image.
        categories: Names of the classes.
        kind: Boxes or masks.
    """
    require_pycocotools()
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    shown, results = COCO(), COCO()
    shown.dataset = _dataset(truth, categories)
    results.dataset = shown.dataset | {"annotations": _results(found, kind)}
    with contextlib.redirect_stdout(io.StringIO()):  # suppress its output
        shown.createIndex()
        results.createIndex()
        evaluation = COCOeval(shown, results, kind)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    stats, precision = evaluation.stats, evaluation.eval["precision"]
    overall = {name: float(stats[i]) for name, i in COCO_MEASURES.items() if stats[i] >= 0}
    by_class = {}
    for number, name in enumerate(categories):
        values = precision[:, :, number, 0, -1]  # thresholds and recalls, all areas, 100 detections per image
        if (values > -1).any():
            by_class[name] = float(values[values > -1].mean())
    return overall, by_class


def _dataset(truth: Sequence[Objects], categories: Sequence[str]) -> dict[str, Any]:
    annotations: list[dict[str, Any]] = []
    for image, objects in enumerate(truth):
        for n in range(len(objects)):
            box, mask = objects.boxes[n], objects.masks[n]
            annotation = _boxed(image, box, int(objects.classes[n]), len(annotations) + 1)
            annotation["iscrowd"] = int(objects.crowd[n])
            if mask is not None:
                codes = require_pycocotools()
                pixels = mask.pixels(objects.height, objects.width)
                annotation["segmentation"] = codes.encode(np.asfortranarray(pixels.astype(np.uint8)))
                annotation["area"] = float(pixels.sum())  # COCO's object sizes are numbers of pixels
            if objects.difficult[n]:
                annotation["area"] = _IGNORED_AREA
            annotations.append(annotation)
    return {
        "images": [{"id": n, "height": o.height, "width": o.width} for n, o in enumerate(truth)],
        "categories": [{"id": n, "name": name} for n, name in enumerate(categories)],
        "annotations": annotations,
    }


def _results(found: Sequence[Found], kind: Kind) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = []
    for image, detections in enumerate(found):
        for n in range(len(detections)):
            result = _boxed(image, detections.boxes[n], int(detections.classes[n]), len(results) + 1)
            result |= {"score": float(detections.scores[n]), "iscrowd": 0}
            if kind == "segm" and detections.masks is not None:
                codes = require_pycocotools()
                result["segmentation"] = detections.masks[n]
                result["area"] = float(codes.area(detections.masks[n]))
            results.append(result)
    return results


def _boxed(image: int, box: NDArray[np.float32], category: int, number: int) -> dict[str, Any]:
    left, top, right, bottom = (float(value) for value in box)
    width, height = right - left, bottom - top
    return {
        "id": number,
        "image_id": image,
        "category_id": category,
        "bbox": [left, top, width, height],
        "area": width * height,
    }


def voc_measures(truth: Sequence[Objects], found: Sequence[Found], classes: int) -> dict[str, float]:
    """Pascal VOC's metrics: means over classes of the area under the curve, and of VOC 2007's eleven points.

    ``VOC07 AP`` is the mean over the thresholds 0.5, 0.55 to 0.95, which papers report as AP of VOC 2007.
    """
    curves = {
        threshold: [
            curve
            for label in range(classes)
            if (curve := voc_curve(truth, found, label, threshold)) is not None
        ]
        for threshold in VOC_THRESHOLDS
    }
    eleven = [float(np.mean([eleven_points(*curve) for curve in of])) for of in curves.values()]
    area = float(np.mean([area_under(*curve) for curve in curves[VOC_THRESHOLDS[0]]]))
    return {
        "VOC AP50": area,
        "VOC07 AP50": eleven[0],
        "VOC07 AP": float(np.mean(eleven)),
        "VOC07 AP75": eleven[5],
    }


Curve = tuple[NDArray[np.float64], NDArray[np.float64]]


def voc_curve(truth: Sequence[Objects], found: Sequence[Found], label: int, threshold: float) -> Curve | None:
    """Recall and precision of one class after each detection, the most confident first; None without objects.

    As in the benchmark's own code, a detection belongs to the object with the largest overlap, and a second detection
    of the same object is wrong. Detections of difficult objects do not count; neither do those in a crowd, as in
    COCO's code.
    """
    total, rows = 0, []
    for image, (objects, detections) in enumerate(zip(truth, found, strict=True)):
        own = objects.only((objects.classes == label) & ~objects.crowd)
        crowds = objects.only((objects.classes == label) & objects.crowd)
        total += int((~own.difficult).sum())
        chosen = np.flatnonzero(detections.classes == label)
        overlaps = iou(detections.boxes[chosen], own.boxes)
        crowded = covered(detections.boxes[chosen], crowds.boxes) >= threshold
        for place, n in enumerate(chosen):
            nearest = int(overlaps[place].argmax()) if len(own) else -1
            hit = nearest >= 0 and overlaps[place, nearest] >= threshold
            aside = own.difficult[nearest] if hit else crowded[place].any()
            rows.append((-float(detections.scores[n]), image, nearest, hit, aside))
    if not total:
        return None
    rows.sort(key=lambda row: row[0])
    taken: set[tuple[int, int]] = set()
    right, wrong = [], []
    for _, image, nearest, hit, ignored in rows:
        first = hit and (image, nearest) not in taken
        right.append(first and not ignored)
        wrong.append(not first and not ignored)
        if hit:
            taken.add((image, nearest))
    true, false = np.cumsum(right, dtype=np.float64), np.cumsum(wrong, dtype=np.float64)
    return true / total, true / np.maximum(true + false, np.finfo(np.float64).tiny)


Boxes = NDArray[np.float32]
Shares = NDArray[np.float64]


def iou(first: Boxes, second: Boxes) -> Shares:
    """(n, m): intersection over union of two boxes."""
    shared, one, other = _areas(first, second)
    return _over(shared, one + other - shared)


def covered(first: Boxes, second: Boxes) -> Shares:
    """(n, m): the share of each first box that is inside each second box."""
    shared, one, _ = _areas(first, second)
    return _over(shared, np.broadcast_to(one, shared.shape))


def _areas(first: Boxes, second: Boxes) -> tuple[Shares, Shares, Shares]:
    """The areas of the intersections (n, m), of the first boxes (n, 1) and of the second boxes (1, m)."""
    a, b = first.astype(np.float64)[:, None], second.astype(np.float64)[None]
    sides = np.clip(np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2]), 0, None)
    one, other = ((box[..., 2:] - box[..., :2]).prod(axis=-1) for box in (a, b))
    return sides.prod(axis=-1), one, other


def _over(part: Shares, whole: Shares) -> Shares:
    shares: Shares = np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
    return shares


def area_under(recall: NDArray[np.float64], precision: NDArray[np.float64]) -> float:
    """The area under the monotone curve: at each recall, the largest precision at this or a higher recall."""
    if not len(recall):
        return 0.0
    falling = np.maximum.accumulate(precision[::-1])[::-1]
    return float(np.sum(np.diff(recall, prepend=0.0) * falling))


def eleven_points(recall: NDArray[np.float64], precision: NDArray[np.float64]) -> float:
    """The mean, over the recalls 0, 0.1 to 1, of the largest precision at this or a higher recall."""
    beyond = [precision[recall >= point - 1e-12] for point in np.linspace(0, 1, 11)]
    return float(np.mean([values.max(initial=0.0) for values in beyond]))
