"""Average precision, against pycocotools on files, a literal version of VOC's, and cases worked out by hand."""

import contextlib
import io
import json
from pathlib import Path

import numpy as np
import pytest
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from cacr.data import open_source
from cacr.data.annotated import AnnotatedSource, Objects
from cacr.evaluation.detection.found import Found
from cacr.evaluation.detection.metrics import (
    area_under,
    coco_measures,
    eleven_points,
    voc_curve,
    voc_measures,
)
from tests.data.annotating import coco_set
from tests.evaluation.detection.making import found, objects


def _perfect(truth: list[Objects]) -> list[Found]:
    return [found(*((c, 0.9, *b) for c, b in zip(o.classes, o.boxes, strict=True))) for o in truth]


def test_perfect_boxes_are_worth_one_by_every_measure() -> None:
    truth = [objects((0, 5, 5, 45, 45), (1, 40, 40, 90, 80)), objects(), objects((1, 0, 0, 100, 100))]
    overall, by_class = coco_measures(truth, _perfect(truth), ["a", "b", "c"], "bbox")
    assert [overall[name] for name in ("AP", "AP50", "AP75", "AP large")] == pytest.approx([1] * 4)
    assert "AP small" not in overall  # there is no small object
    assert by_class == pytest.approx({"a": 1, "b": 1})  # and none of class c
    assert voc_measures(truth, _perfect(truth), 3) == pytest.approx(
        {"VOC AP50": 1, "VOC07 AP50": 1, "VOC07 AP": 1, "VOC07 AP75": 1}
    )


def test_nothing_found_is_worth_nothing() -> None:
    truth = [objects((0, 5, 5, 30, 30))]
    overall, _ = coco_measures(truth, [found()], ["a"], "bbox")
    assert overall["AP"] == 0 and set(voc_measures(truth, [found()], 1).values()) == {0}


def test_shifted_boxes_and_masks_are_worth_what_pycocotools_says_of_files(tmp_path: Path) -> None:
    """Its own way from files: loadRes of a list of results, instead of objects in memory."""
    folder = coco_set(tmp_path / "shapes", 12)
    source = open_source(f"coco:{folder}")
    assert isinstance(source, AnnotatedSource)
    rng, results, detections = np.random.default_rng(0), [], []
    theirs = COCO(str(folder / "instances.json"))
    for number, truth in enumerate(source.objects):
        moved = truth.boxes + rng.integers(-6, 7, truth.boxes.shape).astype(np.float32)
        scores = rng.random(len(truth)).astype(np.float32)
        masks = []
        for n, (left, top, right, bottom) in enumerate(moved.tolist()):
            corners = [left, top, right, top, right, bottom, left, bottom]
            code = theirs.annToRLE({"image_id": number, "segmentation": [corners]})
            masks.append(code)
            results.append(
                {
                    "image_id": number,
                    "category_id": int(truth.classes[n]) + 1,
                    "bbox": [left, top, right - left, bottom - top],
                    "score": float(scores[n]),
                    "segmentation": {"size": code["size"], "counts": code["counts"].decode()},
                }
            )
        detections.append(Found(moved, scores, truth.classes, tuple(masks)))
    for kind in ("bbox", "segm"):
        own = [{k: v for k, v in r.items() if kind == "segm" or k != "segmentation"} for r in results]
        own = [{k: v for k, v in r.items() if kind == "bbox" or k != "bbox"} for r in own]
        file = tmp_path / f"{kind}.json"
        file.write_text(json.dumps(own))
        with contextlib.redirect_stdout(io.StringIO()):
            evaluation = COCOeval(theirs_with_area(folder, tmp_path), theirs.loadRes(str(file)), kind)
            evaluation.evaluate()
            evaluation.accumulate()
            evaluation.summarize()
        overall, _ = coco_measures(source.objects, detections, source.categories, kind)  # type: ignore[arg-type]
        assert overall["AP"] == pytest.approx(evaluation.stats[0]) and 0.02 < overall["AP"] < 0.98
        assert overall["AP50"] == pytest.approx(evaluation.stats[1])
        assert overall["AP75"] == pytest.approx(evaluation.stats[2])


def theirs_with_area(folder: Path, place: Path) -> COCO:
    """The annotations with the areas that COCO's own files have, and its evaluation asks for."""
    document = json.loads((folder / "instances.json").read_text())
    theirs = COCO(str(folder / "instances.json"))
    for annotation in document["annotations"]:
        annotation["area"] = float(theirs.annToMask(annotation).sum())
    (place / "areas.json").write_text(json.dumps(document))
    return COCO(str(place / "areas.json"))


def test_crowds_may_be_found_often_and_difficult_objects_need_not_be_found() -> None:
    sure = (0, 0.9, 0, 0, 20, 20)
    plain = objects((0, 0, 0, 20, 20))
    crowd, difficult = (
        objects((0, 50, 50, 100, 100), crowd=True),
        objects((0, 50, 50, 100, 100), difficult=True),
    )
    inside = [(0, 0.95, 52, 52, 70, 70), (0, 0.94, 75, 75, 99, 99)]
    for other, said in ((crowd, inside), (difficult, [(0, 0.95, 50, 50, 100, 100)]), (difficult, [])):
        both = Objects(
            100,
            100,
            *(
                np.concatenate([getattr(plain, name), getattr(other, name)])
                for name in ("boxes", "classes", "crowd", "difficult")
            ),
            plain.masks + other.masks,
        )
        overall, _ = coco_measures([both], [found(sure, *said)], ["a"], "bbox")
        assert overall["AP"] == pytest.approx(1)
        assert voc_measures([both], [found(sure, *said)], 1)["VOC AP50"] == pytest.approx(1)


def _literal_voc(
    truth: list[Objects], detections: list[Found], label: int, threshold: float
) -> tuple[float, float]:
    """VOC's evaluation, step by step as the benchmark's text has it: area under the curve, and eleven points."""
    everything = sorted(
        (
            (float(d.scores[n]), image, d.boxes[n])
            for image, d in enumerate(detections)
            for n in range(len(d))
            if d.classes[n] == label
        ),
        key=lambda row: -row[0],
    )
    used: set[tuple[int, int]] = set()
    total = sum(int((o.classes[n] == label) and not o.difficult[n]) for o in truth for n in range(len(o)))
    tp = fp = 0
    curve = []
    for _, image, box in everything:
        best, place = -1.0, -1
        for n in range(len(truth[image])):
            if truth[image].classes[n] != label:
                continue
            other = truth[image].boxes[n]
            width = min(box[2], other[2]) - max(box[0], other[0])
            height = min(box[3], other[3]) - max(box[1], other[1])
            shared = max(0.0, float(width)) * max(0.0, float(height))
            area = sum(float((b[2] - b[0]) * (b[3] - b[1])) for b in (box, other)) - shared
            if shared / area > best:
                best, place = shared / area, n
        if best >= threshold:
            if truth[image].difficult[place]:
                continue
            if (image, place) in used:
                fp += 1
            else:
                used.add((image, place))
                tp += 1
        else:
            fp += 1
        curve.append((tp / total, tp / (tp + fp)))
    area = before = 0.0
    for n, (recall, _) in enumerate(curve):
        area += (recall - before) * max(p for _, p in curve[n:])
        before = recall
    points = [max([p for r, p in curve if r >= t / 10 - 1e-9], default=0.0) for t in range(11)]
    return area, sum(points) / 11


@pytest.mark.parametrize("seed", range(4))
def test_voc_equals_its_literal_version(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth, detections = [], []
    for _ in range(6):
        corners = rng.integers(0, 60, (5, 2))
        boxes = np.concatenate([corners, corners + rng.integers(10, 40, (5, 2))], axis=1)
        labels = rng.integers(0, 2, 5)
        hard = objects(*((c, *b) for c, b in zip(labels, boxes, strict=True)))
        truth.append(Objects(100, 100, hard.boxes, hard.classes, hard.crowd, rng.random(5) < 0.2, hard.masks))
        moved = np.concatenate([boxes, boxes[:2]]) + rng.integers(-4, 5, (7, 4))
        said = np.concatenate([labels, rng.integers(0, 2, 2)])
        detections.append(found(*((c, rng.random(), *b) for c, b in zip(said, moved, strict=True))))
    for threshold in (0.5, 0.75):
        for label in (0, 1):
            curve = voc_curve(truth, detections, label, threshold)
            assert curve is not None
            expected = _literal_voc(truth, detections, label, threshold)
            assert (area_under(*curve), eleven_points(*curve)) == pytest.approx(expected)
