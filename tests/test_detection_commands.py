"""Boxes and masks on the command line: refusals in one message, and what `doctor` and the page say."""

import shutil
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev

import pytest
import torch
from scipy import stats

from cacr.encoders import build_encoder, save_encoder
from cacr.evaluation.guest import Guest
from cacr.reporting.detections import detections_of
from cacr.reporting.facts import run_facts
from cacr.reporting.results import results_table
from cacr.runs.result import write_result
from cacr.runs.run import Run as RunFacts
from cacr.terminal import CleanConsole
from tests.conftest import Run, refused
from tests.data.annotating import coco_set, voc_image, voc_list, voc_object
from tests.evaluation.results.test_comparison import make_run
from tests.runs.test_result import RESULT

FOUND = replace(
    RESULT,
    protocol="detection",
    metric="AP",
    details={"per_class": {"disc": 0.25, "square": 1.0}, "pictures": "found.jpg"},
)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("encoder")
    torch.manual_seed(0)
    made = build_encoder("small_alexnet", image_size=16, width=0.05)
    save_encoder(folder, made, made.info)
    return folder


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return coco_set(tmp_path_factory.mktemp("shapes") / "set", 6)


def test_what_is_wrong_is_told_in_one_message(run: Run, encoder: Path, shapes: Path) -> None:
    command = ["evaluate", encoder, "--protocol", "detection", "--data"]
    refused(run, [*command, "coco:nowhere"], "there is no folder nowhere")
    refused(run, [*command, f"coco:{shapes}", "--set", "freeze=first"], "detection: freeze")
    refused(run, [*command, f"voc:{shapes}"], "is not in the Pascal VOC format")
    refused(
        run, ["evaluate", encoder, "--data", f"coco:{shapes}"], "use --protocol detection, or segmentation"
    )
    refused(run, [*command, f"coco:{shapes}", "--set", "metric=accuracy"], "has no effect")


def test_doctor_counts_objects_and_names_annotations_that_are_left_out(
    run: Run, shapes: Path, tmp_path: Path
) -> None:
    text = (shapes / "instances.json").read_text()
    (tmp_path / "images").symlink_to(shapes / "images")
    (tmp_path / "instances.json").write_text(text.replace('"category_id": 1', '"category_id": 7', 1))
    code, said = run("doctor", f"coco:{tmp_path}")
    assert code == 0 and "annotated objects: " in said and "square" in said
    assert "annotation left out: annotation" in said and "there is no category 7" in said


def test_doctor_does_not_call_annotations_files_that_are_not_read(run: Run, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        voc_image(tmp_path, name, [voc_object("dog", (1, 1, 9, 9))])
    voc_list(tmp_path, "trainval", ["a", "b", "c"])
    (tmp_path / "JPEGImages" / "film.mp4").write_bytes(b"")
    code, said = run("doctor", f"voc:{tmp_path}")
    assert code == 0 and "annotated objects: 3 (dog 3)" in said
    assert "not read: 1 .mp4" in said and ".xml" not in said and ".txt" not in said


def test_scores_by_class_stand_under_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    CleanConsole().print(results_table([FOUND, replace(FOUND, subject="scratch")]))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["AP", "by", "class", "encoder", "scratch"] in lines
    assert ["disc", "25.0", "%", "25.0", "%"] in lines


def test_the_page_of_an_encoder_without_a_run_has_its_detections(encoder: Path) -> None:
    write_result(encoder / "evaluation", replace(FOUND, details={**FOUND.details, "pictures": "found.jpg"}))
    (encoder / "evaluation" / "found.jpg").write_bytes(b"\xff\xd8\xff picture")
    (found,) = run_facts(Guest.visit(encoder))["detections"]
    assert found["classes"] == [["disc", "25.0 %"], ["square", "100.0 %"]]
    assert found["source"].startswith("data:image/jpeg;base64,")


def test_the_page_shows_a_jpeg_beside_the_result_and_nothing_else(trained: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(trained, tmp_path / "run"))
    jpeg = b"\xff\xd8\xff picture"
    (copy / "secret").write_bytes(jpeg)
    for name, content, shown in (
        ("found.jpg", jpeg, True),
        ("other.jpg", b"<script>", False),
        ("../secret", jpeg, False),
        ("missing.jpg", None, False),
    ):
        write_result(copy / "evaluation", replace(FOUND, details=FOUND.details | {"pictures": name}))
        if content is not None and "/" not in name:
            (copy / "evaluation" / name).write_bytes(content)
        (found,) = detections_of(RunFacts.open(copy))
        assert found["source"].startswith("data:image/jpeg;base64,") == shown
        assert found["classes"] == [["disc", "25.0 %"], ["square", "100.0 %"]]


def test_detectors_of_two_arms_are_compared_over_seeds(run: Run, tmp_path: Path) -> None:
    """Each run has a detector of its own seed, judged on its own fifth; scratch beside them is no arm."""
    arms = {"info_nce": [0.30, 0.33, 0.31, 0.32], "cacr": [0.39, 0.44, 0.41, 0.44]}
    folders = []
    for arm, scores in arms.items():
        for seed, score in enumerate(scores):
            folders.append(make_run(tmp_path / f"{arm}-{seed}", seed=seed, score=0.5, objective=arm))
            found = replace(
                FOUND,
                **{"score": score, "also": {"AP50": score + 0.2}, "seed": seed, "held_out": True},
                split=f"a fifth of the images, held out with seed {seed}",
                counts={"train_images": 136, "test_images": 34},
            )
            write_result(folders[-1] / "evaluation", found)
            write_result(folders[-1] / "evaluation", replace(found, subject="scratch", score=0.9))
    code, text = run("compare", *folders)
    assert code == 0
    theirs, ours = arms.values()
    p = 3 * stats.ttest_rel(ours, theirs).pvalue  # Holm: of three measures two differ, and by as much
    for measure, more in (("AP", 0), ("AP50", 0.2)):
        table = text.split(f"detection {measure}, lab ", 1)[1].split("training budget of the runs")[0]
        first, second = (
            f"{100 * (mean(each) + more):.1f} ± {100 * stdev(each):.1f}" for each in arms.values()
        )
        assert f"info_nce 4 {first} cacr 4 {second} +10.5 (+" in table and f") {p:.3f} better" in table
    assert "detection AP (" not in text and "90.0" not in text
