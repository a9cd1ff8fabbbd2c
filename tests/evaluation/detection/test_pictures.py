"""Which images are the best and the worst, and what is drawn on them."""

from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from cacr.data.annotated import AnnotatedSource
from cacr.evaluation.detection.pictures import EACH, Judged, chosen_images, judge, sheet
from tests.evaluation.detection.making import found, objects


def test_detections_are_matched_by_class_place_and_score() -> None:
    truth = objects((0, 0, 0, 20, 20), (1, 50, 50, 90, 90))
    said = found(
        (0, 0.9, 0, 0, 20, 20),  # right
        (0, 0.8, 1, 1, 20, 20),  # the same object again
        (0, 0.7, 50, 50, 90, 90),  # another class
        (1, 0.4, 50, 50, 90, 90),  # not sure enough to be drawn
    )
    judged = judge(3, truth, said)
    assert judged == Judged(3, hits=1, missed=1, wrong=2, right=(True, False, False))
    assert judged.agreement == 2 / (2 + 1 + 2)


def test_crowds_and_difficult_objects_count_for_nothing() -> None:
    for flag in ({"crowd": True}, {"difficult": True}):
        truth = objects((0, 0, 0, 40, 40), **flag)
        again = judge(0, truth, found((0, 0.9, 0, 0, 40, 40), (0, 0.8, 1, 1, 40, 40)))
        assert (again.hits, again.missed, again.wrong) == (0, 0, 0)


def test_the_best_come_first_and_no_image_comes_twice() -> None:
    judged = [Judged(n, hits=n, missed=10 - n, wrong=0, right=()) for n in range(11)]
    nothing = Judged(11, hits=0, missed=0, wrong=0, right=())
    assert [j.index for j in chosen_images([*judged, nothing])] == [10, 9, 8, 7, 0, 1, 2, 3]
    assert [j.index for j in chosen_images(judged[: EACH + 1])] == [4, 3, 2, 1, 0]


def test_what_is_there_and_what_was_found_is_drawn(tmp_path: Path) -> None:
    Image.new("RGB", (320, 320), "white").save(tmp_path / "a.png")
    truth = objects((0, 10, 10, 90, 90))
    source = AnnotatedSource("set", tmp_path, ["a.png"], [truth], ["dog"])
    said = found((0, 0.9, 120, 120, 300, 300))
    picture = sheet(source, [said], [judge(0, truth, said)])
    assert picture is not None
    pixels = np.asarray(Image.open(BytesIO(picture)).convert("RGB")).astype(int)
    assert pixels[50, 11].argmax() == 1 and pixels[50, 11].min() < 100  # green: an object
    assert pixels[200, 120].argmax() == 0 and pixels[200, 120].min() < 150  # orange: found where nothing is
    assert pixels[50, 50].min() > 230
    assert sheet(source, [said], []) is None
