"""Detection and segmentation through `cacr evaluate`: results, bad data, what is told."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from cacr.encoders import build_encoder, save_encoder
from cacr.errors import UserError
from cacr.evaluation import Result, evaluate_run
from tests.conftest import Once
from tests.data.annotating import coco_set, voc_image, voc_object

SHORT = {
    "steps": 1,
    "batch_size": 2,
    "sizes": (32,),
    "test_size": 32,
    "max_size": 64,
    "proposals": 8,
    "precise": 0,
}


@pytest.fixture(scope="module")
def shapes(once: Once) -> Path:
    """Drawn shapes: ten images to learn from, four to be judged on."""

    def build(folder: Path) -> None:
        coco_set(folder / "train", 10)
        coco_set(folder / "test", 4, seed=1)

    return once("annotated_shapes", build)


def _evaluate(encoder: Path, data: object, protocol: str = "detection", **more: Any) -> list[Result]:
    values = {"data": str(data), "protocol": protocol, "workers": 0, "baselines": (), "options": SHORT}
    return evaluate_run(encoder, values | more)


@pytest.mark.trains
def test_segmentation_tells_of_masks_and_boxes_and_draws_them(run: Path, shapes: Path) -> None:
    (result,) = _evaluate(run, f"coco:{shapes}", "segmentation")
    assert result.metric == "mask AP" and {"mask AP50", "box AP", "box AP75"} <= result.also.keys()
    assert result.counts == {"train_images": 10, "test_images": 4, "classes": 2, "unreadable": 0}
    assert set(result.details["per_class"]) == {"disc", "square"}
    assert result.details["steps"] == 1 and result.split == f"the test part of coco:{shapes}"
    with Image.open(run / "evaluation" / result.details["pictures"]) as picture:
        assert picture.format == "JPEG" and picture.width == 4 * 320
    assert not list((run / "evaluation").glob("detector-*"))  # a finished detector leaves no checkpoints


@pytest.mark.trains
def test_scratch_stands_beside_the_encoder_unless_another_recipe_is_asked_for(
    run: Path, shapes: Path
) -> None:
    results = _evaluate(run, f"coco:{shapes}", baselines=("auto",))
    assert [result.subject for result in results] == ["encoder", "scratch"]
    (alone,) = _evaluate(
        run, f"coco:{shapes}", baselines=("auto",), options={**SHORT, "recipe": "coco-fpn-1x", "model": "fpn"}
    )
    assert alone.subject == "encoder"


@pytest.mark.trains
def test_a_fifth_is_held_out_where_there_is_no_test_part(run: Path, shapes: Path) -> None:
    (result,) = _evaluate(run, f"coco:{shapes}/train")
    assert (result.counts["train_images"], result.counts["test_images"]) == (8, 2) and result.held_out
    assert {"VOC AP50", "VOC07 AP50", "AP50"} <= result.also.keys()


def _broken(shapes: Path, folder: Path, change: Any) -> Path:
    """A copy of the training images with another annotation file."""
    shutil.copytree(shapes / "train", folder)
    document = json.loads((folder / "instances.json").read_text())
    change(document)
    (folder / "instances.json").write_text(json.dumps(document))
    return folder


@pytest.mark.trains
def test_a_few_bad_annotations_and_images_are_left_out_and_told(
    run: Path, shapes: Path, tmp_path: Path
) -> None:
    def change(document: dict[str, Any]) -> None:
        document["annotations"][0]["bbox"] = [1, 1, 0, 0]
        document["images"][2]["file_name"] = "gone.png"
        document["images"][3]["width"] = 63

    folder = _broken(shapes, tmp_path / "set", change)
    (result,) = _evaluate(run, f"coco:{folder}", max_unreadable=0.2)
    assert result.counts["unreadable"] == 2 and result.details["skipped_annotations"] >= 1
    assert any("annotations are left out" in note and "no area" in note for note in result.notes)
    assert len(result.details["skipped"]) == result.details["skipped_annotations"]
    assert all(str(folder / "instances.json") in text for text in result.details["skipped"])
    assert any("2 images are left out: " in note and "gone.png" in note for note in result.notes)
    gone, other_size = result.details["unreadable"]
    assert "gone.png" in gone and "64 x 64 pixels, but annotated as 63 x 64" in other_size


def _empty(document: dict[str, Any]) -> None:
    document["annotations"] = []


def _without_masks(document: dict[str, Any]) -> None:
    for annotation in document["annotations"]:
        del annotation["segmentation"]


def _flat(document: dict[str, Any]) -> None:
    for annotation in document["annotations"]:
        annotation["bbox"][2] = 0


@pytest.mark.parametrize(
    ("change", "protocol", "why"),
    [
        (_empty, "detection", "has no annotated object in its 10 images"),
        (_without_masks, "segmentation", "has only boxes: use --protocol detection"),
        (_flat, "detection", "Fix or remove them"),
    ],
)
def test_data_that_cannot_be_used_is_refused(
    change: Any, protocol: str, why: str, run: Path, shapes: Path, tmp_path: Path
) -> None:
    folder = _broken(shapes, tmp_path / "set", change)
    with pytest.raises(UserError, match=why):
        _evaluate(run, f"coco:{folder}", protocol)


def test_other_wrong_data_and_encoders_are_refused(run: Path, shapes: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="need boxes"):
        _evaluate(run, shapes / "train" / "images")
    voc_image(tmp_path / "voc", "a", [voc_object("star", (1, 1, 9, 9))])
    with pytest.raises(UserError, match="classes that the training images do not, for example 'star'"):
        _evaluate(run, f"coco:{shapes}", test_data=f"voc:{tmp_path / 'voc'}")
    with pytest.raises(UserError, match="there is no recipe 'minni'; did you mean mini"):
        _evaluate(run, f"coco:{shapes}", options={"recipe": "minni"})


@pytest.mark.trains
def test_a_transformer_is_trained_by_adamw(shapes: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    encoder = build_encoder("vit_tiny_patch16_224", image_size=32)
    save_encoder(tmp_path / "vit", encoder, encoder.info)
    (result,) = _evaluate(tmp_path / "vit", f"coco:{shapes}")
    assert (result.details["optimizer"], result.details["model"]) == ("adamw", "fpn")
    assert result.details["lr"] == pytest.approx(0.01 * 0.01 * 2 / 4)  # a hundredth, for half of the batch


def test_what_does_not_fit_is_refused_before_it_starts(
    run: Path, shapes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cacr.evaluation.detection.room.free_memory", lambda: 3e8)
    with pytest.raises(UserError, match=r"0\.3 GB are free; it would fit with --set batch_size="):
        _evaluate(run, f"coco:{shapes}", options={**SHORT, "batch_size": 512})
    assert not list((run / "evaluation").glob("detector-*"))


@pytest.mark.slow
@pytest.mark.trains
def test_a_tiny_detector_learns_to_find_drawn_shapes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    encoder = build_encoder("resnet10t", image_size=64)
    save_encoder(tmp_path / "run", encoder, encoder.info)
    coco_set(tmp_path / "shapes" / "train", 60)
    coco_set(tmp_path / "shapes" / "test", 20, seed=1)
    options = {
        **SHORT,
        "steps": 250,
        "batch_size": 4,
        "sizes": (64,),
        "test_size": 64,
        "proposals": 32,
        "precise": 60,
    }
    (result,) = _evaluate(tmp_path / "run", f"coco:{tmp_path / 'shapes'}", options=options)
    assert result.also["AP50"] > 0.5
