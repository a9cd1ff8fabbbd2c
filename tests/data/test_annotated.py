"""Boxes and masks of COCO and Pascal VOC, against pycocotools and annotations written by hand."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pycocotools import mask as codes
from pycocotools.coco import COCO

from cacr.data import ArraySource, MissingPartError, open_source, prepare
from cacr.data.annotated import AnnotatedSource
from cacr.data.masks import mask_of_polygons, mask_of_runs, uncompressed
from cacr.errors import UserError
from tests.data.annotating import coco_set, marked, voc_image, voc_list, voc_object, write_instances


def _open(spec: str, part: str = "train") -> AnnotatedSource:
    source = open_source(spec, part=part)  # type: ignore[arg-type]
    assert isinstance(source, AnnotatedSource)
    return source


def _image(number: int, width: int = 20, height: int = 10) -> dict[str, object]:
    return {"id": number, "file_name": f"{number}.png", "width": width, "height": height}


def test_boxes_and_masks_are_those_of_pycocotools(tmp_path: Path) -> None:
    folder = coco_set(tmp_path / "shapes", 6)
    source, theirs = _open(f"coco:{folder}"), COCO(str(folder / "instances.json"))
    assert source.categories == ("disc", "square")
    for number, objects in enumerate(source.objects):
        expected = theirs.loadAnns(theirs.getAnnIds(imgIds=[number]))
        boxes = np.array([[x, y, x + w, y + h] for x, y, w, h in (a["bbox"] for a in expected)])
        assert np.array_equal(objects.boxes, boxes.reshape(-1, 4))
        assert objects.classes.tolist() == [a["category_id"] - 1 for a in expected]
        for mask, annotation in zip(objects.masks, expected, strict=True):
            assert mask is not None
            assert np.array_equal(mask.pixels(64, 64), theirs.annToMask(annotation).astype(bool))


@pytest.mark.parametrize("seed", range(5))
def test_compressed_runs_are_read_as_pycocotools_writes_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pixels = np.kron(rng.integers(0, 2, (5, 7)), np.ones((9, 40))).astype(
        np.uint8
    )  # long runs need several signs
    code = codes.encode(np.asfortranarray(pixels))
    text = code["counts"].decode()
    assert np.array_equal(mask_of_runs(text, [45, 280], 45, 280).pixels(45, 280), pixels.astype(bool))
    assert sum(uncompressed(text)) == pixels.size


def test_polygons_are_drawn_as_pycocotools_draws_them() -> None:
    parts = [[1, 1, 15, 2, 8, 9], [16, 5, 19, 5, 19, 9, 16, 9]]
    expected = codes.decode(codes.merge(codes.frPyObjects(parts, 10, 20))).astype(bool)
    assert np.array_equal(mask_of_polygons(parts, 10, 20).pixels(10, 20), expected)


@pytest.mark.parametrize(
    ("counts", "why"),
    [
        ([5, 5], "add up"),
        ([-1, 201], "add up"),
        ([10**18] * 40, "add up"),
        ([10**30], "add up"),
        ("!!", "damaged"),
        ("o" * 30, "damaged"),
        ("P", "cut off"),
    ],
)
def test_runs_that_do_not_fill_the_image_are_refused(counts: object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        mask_of_runs(counts, [10, 20], 10, 20)  # type: ignore[arg-type]


def test_what_is_wrong_with_an_annotation_is_told_and_the_others_are_kept(tmp_path: Path) -> None:
    sound = [
        marked(0, 1, [2, 3, 4, 5]),
        marked(0, 2, [15, 5, 50, 50]),  # reaches over the border
        marked(1, 1, [0, 0, 20, 10], iscrowd=1, segmentation={"size": [10, 20], "counts": [0, 200]}),
    ]
    wrong = {
        "no area": marked(0, 1, [2, 3, 0, 5]),
        "outside of its image": marked(0, 1, [30, 3, 4, 5]),
        "no image 7": marked(7, 1, [1, 1, 2, 2]),
        "no category 9": marked(0, 9, [1, 1, 2, 2]),
        "four numbers": marked(0, 1, [1, 1, 2]),
        "three points": marked(0, 1, [1, 1, 2, 2], segmentation=[[1, 1, 2, 2]]),
        "far outside": marked(0, 1, [1, 1, 2, 2], segmentation=[[1, 1, 2, 2, 1e9, 0]]),
    }
    lacking = {
        "bbox: Field required": {"id": 77, "image_id": 0, "category_id": 1},
        "image_id: Input should be a valid integer": marked("a", 1, [1, 1, 2, 2]),  # type: ignore[arg-type]
    }
    write_instances(tmp_path, [_image(0), _image(1), _image(2)], [*sound, *wrong.values(), *lacking.values()])
    source = _open(f"coco:{tmp_path}")
    assert source.objects[0].boxes.tolist() == [[2, 3, 6, 8], [15, 5, 20, 10]]
    assert source.objects[1].crowd.tolist() == [True] and len(source.objects[2]) == 0
    assert source.marked == len(wrong) + len(lacking) + 3
    for text, why in zip(source.skipped, (*lacking, *wrong), strict=True):
        assert why in text and str(tmp_path / "instances.json") in text
    assert "annotation 77 of" in source.skipped[0] and "9 annotations are left out" in source.notes[0]


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({"images": [], "categories": [{"id": 1, "name": "a"}], "annotations": []}, "has no images"),
        ({"images": [_image(0)], "categories": [], "annotations": []}, "has no categories"),
        (
            {"images": [_image(0), _image(0)], "categories": [{"id": 1, "name": "a"}], "annotations": []},
            "same id",
        ),
        ({"images": [_image(0)], "annotations": []}, "categories: Field required"),
        (
            {
                "images": [{**_image(0), "file_name": "../../secret.png"}],
                "categories": [{"id": 1, "name": "a"}],
                "annotations": [],
            },
            "leads out of its folder",
        ),
    ],
)
def test_files_of_another_kind_are_refused(document: object, why: str, tmp_path: Path) -> None:
    (tmp_path / "instances.json").write_text(json.dumps(document))
    with pytest.raises(UserError, match=why):
        open_source(f"coco:{tmp_path}")


def test_parts_of_coco(tmp_path: Path) -> None:
    coco_set(tmp_path / "own" / "train", 3)
    coco_set(tmp_path / "own" / "val", 2)
    assert (len(_open(f"coco:{tmp_path}/own")), len(_open(f"coco:{tmp_path}/own", "test"))) == (3, 2)
    with pytest.raises(MissingPartError, match="train/ and test/"):
        _open(f"coco:{tmp_path}/own/train", "test")
    published = tmp_path / "published"
    (published / "annotations").mkdir(parents=True)
    for part, count in (("train", 3), ("val", 2)):
        made = coco_set(tmp_path / part, count)
        (made / "images").rename(published / f"{part}2017")
        (made / "instances.json").rename(published / "annotations" / f"instances_{part}2017.json")
    test = _open(f"coco:{published}", "test")
    assert len(test) == 2 and test.paths[0] == published / "val2017" / "000.png"
    with pytest.raises(UserError, match=r"needs instances\.json"):
        _open(f"coco:{tmp_path / 'published' / 'train2017'}")


def test_pascal_counts_pixels_from_one_and_marks_difficult_objects(tmp_path: Path) -> None:
    objects = [voc_object("dog", (1, 1, 40, 30)), voc_object("cat", (5, 6, 8, 9), difficult=1)]
    voc_image(tmp_path, "a", objects)
    voc_image(tmp_path, "b", [])
    source = _open(f"voc:{tmp_path}")
    assert source.categories == ("cat", "dog") and len(source) == 2
    assert source.objects[0].boxes.tolist() == [[0, 0, 40, 30], [4, 5, 8, 9]]
    assert source.objects[0].difficult.tolist() == [False, True]
    assert source.objects[0].classes.tolist() == [1, 0] and len(source.objects[1]) == 0
    assert source.object_counts() == {"cat": 1, "dog": 1}


def test_years_of_pascal_are_trained_on_together_and_tested_on_where_there_is_a_test_list(
    tmp_path: Path,
) -> None:
    for year, names in (("VOC2007", ("t1", "t2", "e1")), ("VOC2012", ("n1", "n2"))):
        for name in names:
            voc_image(tmp_path / year, name, [voc_object("dog", (1, 1, 9, 9))])
        voc_list(tmp_path / year, "trainval", [name for name in names if not name.startswith("e")])
    voc_list(tmp_path / "VOC2007", "test", ["e1"])
    voc_list(
        tmp_path / "VOC2012", "test", ["unpublished"]
    )  # of later years the annotations are not published
    train, test = _open(f"voc:{tmp_path}"), _open(f"voc:{tmp_path}", "test")
    assert [path.stem for path in train.paths] == ["t1", "t2", "n1", "n2"]
    assert [path.stem for path in test.paths] == ["e1"]


def test_without_a_test_list_val_is_for_testing(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        voc_image(tmp_path, name, [voc_object("dog", (1, 1, 9, 9))])
    voc_list(tmp_path, "train", ["a", "b"])
    voc_list(tmp_path, "val", ["c"])
    voc_list(tmp_path, "trainval", ["a", "b", "c"])
    assert [path.stem for path in _open(f"voc:{tmp_path}").paths] == ["a", "b"]
    assert [path.stem for path in _open(f"voc:{tmp_path}", "test").paths] == ["c"]


def test_wrong_annotations_of_pascal(tmp_path: Path) -> None:
    objects = [
        voc_object("dog", (1, 1, 9, 9)),
        voc_object("dog", (9, 1, 5, 9)),
        voc_object("dog", (50, 1, 60, 9)),
        voc_object("", (1, 1, 9, 9)),
        voc_object("dog", ("x", 1, 9, 9)),  # type: ignore[arg-type]
    ]
    voc_image(tmp_path, "a", objects)
    source = _open(f"voc:{tmp_path}")
    assert len(source.objects[0]) == 1 and len(source.skipped) == 4
    for text, why in zip(source.skipped, ("no area", "outside", "needs a name", "not a number"), strict=True):
        assert why in text and "a.xml" in text
    voc_image(tmp_path, "b", [])
    (tmp_path / "Annotations" / "b.xml").write_text("<annotation>")
    voc_list(tmp_path, "trainval", ["a", "gone", "b"])
    source = _open(f"voc:{tmp_path}")
    assert [path.stem for path in source.paths] == ["a"] and len(source.skipped) == 6
    assert "gone.xml: there is no such file" in source.skipped[4]
    assert "b.xml: it is not valid XML" in source.skipped[5]
    voc_list(tmp_path, "trainval", ["gone"])
    with pytest.raises(UserError, match=r"none of 1 annotation files .*gone\.xml: there is no such file"):
        _open(f"voc:{tmp_path}")
    voc_list(tmp_path, "trainval", [])
    with pytest.raises(UserError, match=r"no annotations in .*Annotations"):
        _open(f"voc:{tmp_path}")
    voc_list(tmp_path, "trainval", ["../a"])
    with pytest.raises(UserError, match="leads out of its folder"):
        _open(f"voc:{tmp_path}")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('<!DOCTYPE a [<!ENTITY b "c">]><annotation>&b;</annotation>', "entities"),
        ("<annotation>", "not valid XML"),
    ],
)
def test_hostile_and_damaged_xml_is_refused(text: str, why: str, tmp_path: Path) -> None:
    voc_image(tmp_path, "a", [voc_object("dog", (1, 1, 9, 9))])
    (tmp_path / "Annotations" / "a.xml").write_text(text)
    with pytest.raises(UserError, match=why):
        _open(f"voc:{tmp_path}")


def test_a_size_that_the_annotation_lacks_is_that_of_the_image(tmp_path: Path) -> None:
    voc_image(tmp_path, "a", [])
    Image.new("RGB", (33, 22)).save(tmp_path / "JPEGImages" / "a.jpg")
    inside = voc_object("dog", (20, 10, 99, 99))
    (tmp_path / "Annotations" / "a.xml").write_text(f"<annotation>{inside}</annotation>")
    objects = _open(f"voc:{tmp_path}").objects[0]
    assert (objects.width, objects.height) == (33, 22) and objects.boxes.tolist() == [[19, 9, 33, 22]]


def test_a_part_keeps_the_objects_of_its_images_and_other_classes_are_refused(tmp_path: Path) -> None:
    source = _open(f"coco:{coco_set(tmp_path / 'shapes', 5)}")
    part = source.subset(np.array([3, 1]))
    assert part.objects == (source.objects[3], source.objects[1])
    assert part.paths[0] == source.paths[3]
    turned = source.numbered_as(["square", "disc"])
    assert turned.object_counts() == dict(reversed(source.object_counts().items()))
    with pytest.raises(UserError, match="1 classes that the training images do not, for example 'square'"):
        source.numbered_as(["disc", "star"])


def test_images_alone_are_what_pretraining_takes(tmp_path: Path) -> None:
    source = open_source(f"coco:{coco_set(tmp_path / 'shapes', 3)}", part="pretrain")
    assert source.labels is None and source.class_names is None and source.captions is None
    prepared = prepare(source).source  # small images of one size are taken into memory
    assert isinstance(prepared, ArraySource) and prepared.images.shape == (3, 3, 64, 64)
    assert np.array_equal(prepared.images[1].permute(1, 2, 0).numpy(), np.asarray(source.read(1)))
