"""The memory of a detector, against what a real step and a real look hold."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from cacr.errors import UserError
from cacr.evaluation.data.annotated import AnnotatedData
from cacr.evaluation.detection.batches import Picture, training_batches
from cacr.evaluation.detection.recipes import DetectionRecipe
from cacr.evaluation.detection.room import (
    BOUND,
    bytes_of_step,
    bytes_of_test,
    largest_batch,
    load_of,
    outputs,
    require_room,
)
from cacr.evaluation.detection.training import DetectorTraining, losses_of
from cacr.features.machine import Machine
from cacr.training.cost.live import LiveBytes
from tests.conftest import Once
from tests.data.annotating import coco_set
from tests.evaluation.detection.making import TINY, objects, shapes_source, tiny_detector

WIDE = replace(TINY, sizes=(128,), test_size=128, max_size=128, proposals=32, channels=32)
LARGE = replace(WIDE, batch_size=64)


@pytest.fixture(scope="module")
def data(once: Once) -> AnnotatedData:
    source = shapes_source(once("shapes-5", lambda folder: coco_set(folder, 5)))
    return AnnotatedData(source, source, "all")


def _live(detector: torch.nn.Module) -> LiveBytes:
    live = LiveBytes(fake=False)
    live.ignore([*detector.parameters(), *detector.buffers()])
    return live


@pytest.mark.parametrize(
    ("model", "masks"),
    [
        ("fpn", True),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [("fpn", False), ("c4", False), ("c4", True)]
        ),
    ],
)
def test_a_step_and_a_look_hold_what_was_counted(model: str, masks: bool, data: AnnotatedData) -> None:
    recipe = replace(WIDE, model=model)  # type: ignore[arg-type]
    detector = tiny_detector(recipe, name="resnet18", masks=masks)
    detector.rpn._post_nms_top_n["testing"] = 40
    load = load_of(detector, recipe, data, masks=masks)
    assert (load.images, load.height, load.width, load.objects) == (2, 128, 128, 2)
    job = DetectorTraining(detector.train(), recipe, data.train, masks, 0, Machine(), Path(), 1.0)
    (batch,) = training_batches(
        data.train, batch_size=2, seed=0, steps=range(1), share=slice(None), masks=masks, workers=0
    )
    with _live(detector) as live:
        loss = losses_of(job, [item for item in batch if isinstance(item, Picture)])
        assert loss is not None
        torch.autograd.backward(loss)
    del loss
    counted = bytes_of_step(detector, load)
    assert 0.9 * live.peak < counted < 1.2 * live.peak
    assert BOUND * outputs(detector, load) > 1.5 * live.peak  # so that less than this needs no counting
    detector.zero_grad(set_to_none=True)
    with _live(detector) as looked, torch.no_grad():
        detector.eval()([torch.rand(3, 64, 64)])
    assert bytes_of_test(detector, load) + load.pasted > 0.8 * looked.peak


def test_a_batch_is_as_high_and_as_wide_as_its_highest_and_widest_image(data: AnnotatedData) -> None:
    shapes = [replace(objects(), height=100, width=400), replace(objects(), height=300, width=200)]
    source = data.train.subset(torch.arange(2).numpy())
    source.objects = tuple(shapes)
    assert largest_batch(source, 100, 1000) == (160, 416)  # 100 x 400 and 150 x 100, filled up to 32
    assert largest_batch(source, 100, 200) == (160, 224)  # the long one is made smaller


def test_a_batch_that_fits_is_named_and_where_none_does_smaller_images(
    data: AnnotatedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    detector = tiny_detector(WIDE)

    def ask(free: float, recipe: DetectionRecipe = LARGE) -> None:
        monkeypatch.setattr("cacr.evaluation.detection.room.free_memory", lambda: free)
        require_room(detector, "small_alexnet", recipe, data, Machine(), masks=False)

    ask(1e12)
    with pytest.raises(
        UserError, match=r"64 images of up to 128 x 128 pixels, .* batch_size=(\d+)"
    ) as refused:
        ask(2e8)
    fitting = int(str(refused.value).rsplit("=", 1)[1])
    assert 1 < fitting < 64
    ask(2e8, replace(WIDE, batch_size=fitting))
    with pytest.raises(UserError, match="use smaller images"):
        ask(1e6)
