"""The training of a detector: resumed to the bit, shared by processes, and what it is asked to do."""

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cacr.data.annotated import AnnotatedSource
from cacr.errors import StoppedError, UserError
from cacr.evaluation.detection.batches import flipped, images_of_step, target_of
from cacr.evaluation.detection.recipes import DETECTION_RECIPES, TABLE_7, DetectionRecipe
from cacr.evaluation.detection.settings import DetectorSettings, recipe_of
from cacr.evaluation.detection.training import (
    DetectorTraining,
    make_optimizer,
    measure_statistics,
    train_detector,
)
from cacr.features.machine import Machine
from cacr.training.building.checkpoints import list_checkpoints
from tests.conftest import Once
from tests.data.annotating import coco_set
from tests.evaluation.detection.making import TINY, shapes_source, tiny_detector


@pytest.fixture(scope="module")
def source(once: Once) -> AnnotatedSource:
    return shapes_source(once("shapes-5", lambda folder: coco_set(folder, 5)))


def _job(
    source: AnnotatedSource,
    folder: Path,
    after: Callable[[int, float], None] | None = None,
    recipe: DetectionRecipe = TINY,
) -> DetectorTraining:
    job = DetectorTraining(
        tiny_detector(), recipe, source, False, seed=3, machine=Machine(), folder=folder, save_seconds=0.0
    )
    if after is not None:
        job.after_step = after
    return job


class _KilledError(Exception):
    pass


@pytest.mark.trains
@pytest.mark.parametrize("recipe", [TINY, TINY.with_adamw()], ids=["sgd", "adamw"])
def test_a_killed_or_interrupted_training_ends_with_the_weights_of_one_that_was_not(
    source: AnnotatedSource, tmp_path: Path, recipe: DetectionRecipe
) -> None:
    whole = _job(source, tmp_path / "whole", recipe=recipe)
    train_detector(whole)
    expected = whole.detector.state_dict()

    def kill(step: int, loss: float) -> None:
        if step == 2:
            raise _KilledError

    def interrupt(step: int, loss: float) -> None:
        if step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(_KilledError):  # before the state of this step is saved
        train_detector(_job(source, tmp_path / "parts", kill, recipe))
    assert [step for step, _ in list_checkpoints(tmp_path / "parts")] == [1]
    with pytest.raises(StoppedError, match="after step 3 of 4; run the same command to continue"):
        train_detector(_job(source, tmp_path / "parts", interrupt, recipe))
    made: list[int] = []
    last = _job(source, tmp_path / "parts", lambda step, loss: made.append(step), recipe)
    train_detector(last)
    assert made == [4]
    for name, value in last.detector.state_dict().items():
        assert torch.equal(value, expected[name]), name
    started = tiny_detector().state_dict()
    assert not torch.equal(
        expected["backbone.body.backbone.conv1.0.weight"], started["backbone.body.backbone.conv1.0.weight"]
    )


@pytest.mark.trains
def test_a_state_of_another_detector_is_refused(source: AnnotatedSource, tmp_path: Path) -> None:
    job = replace_steps(_job(source, tmp_path), 1)
    train_detector(job)
    other = replace_steps(_job(source, tmp_path), 2)
    other.detector = tiny_detector(replace(TINY, channels=16))
    with pytest.raises(UserError, match="another detector"):
        train_detector(other)


def replace_steps(job: DetectorTraining, steps: int) -> DetectorTraining:
    job.recipe = replace(job.recipe, steps=steps)
    return job


@pytest.mark.trains
def test_a_loss_that_is_no_number_ends_the_training(source: AnnotatedSource, tmp_path: Path) -> None:
    job = _job(source, tmp_path)
    with torch.no_grad():
        job.detector.roi_heads.box_predictor.cls_score.weight.fill_(float("nan"))
    with pytest.raises(UserError, match="not finite at step 1: try a lower learning rate"):
        train_detector(job)
    assert not list_checkpoints(tmp_path)


def test_statistics_are_the_means_over_batches(source: AnnotatedSource, tmp_path: Path) -> None:
    job = _job(source, tmp_path)
    norm = job.detector.backbone.body.backbone.conv1[1]
    seen: list[torch.Tensor] = []
    norm.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].mean(dim=(0, 2, 3))))
    measure_statistics(job, images=6)
    assert len(seen) == 3 and norm.momentum == 0.1
    torch.testing.assert_close(norm.running_mean, torch.stack(seen).mean(dim=0))


def test_images_come_once_in_a_pass_and_are_a_function_of_the_step() -> None:
    steps = [images_of_step(5, 2, seed=0, step=step) for step in range(5)]
    flat = [image for step in steps for image in step]
    assert sorted(flat[:5]) == sorted(flat[5:]) == list(range(5)) and flat[:5] != flat[5:]
    assert images_of_step(5, 2, seed=0, step=3) == steps[3]
    assert [images_of_step(5, 2, seed=1, step=step) for step in range(5)] != steps


def test_boxes_and_masks_are_flipped_with_their_image(source: AnnotatedSource) -> None:
    image = torch.from_numpy(np.array(source.read(0))).permute(2, 0, 1)
    target = target_of(source, 0, masks=True)
    mirrored, other = flipped(image, target)
    assert torch.equal(mirrored.flip(-1), image)
    for box, mask in zip(other["boxes"].int().tolist(), other["masks"], strict=True):
        rows, columns = torch.where(mask)
        found = [columns.min().item(), rows.min().item(), columns.max().item() + 1, rows.max().item() + 1]
        assert found == box
    back = flipped(mirrored, other)[1]
    assert torch.equal(back["boxes"], target["boxes"]) and torch.equal(back["masks"], target["masks"])


def test_norms_are_not_decayed_and_what_is_frozen_is_not_trained() -> None:
    detector = tiny_detector(freeze=1)
    optimizer = make_optimizer(detector, TINY)
    (decayed, norms) = optimizer.param_groups
    assert decayed["weight_decay"] == 1e-4 and norms["weight_decay"] == 0
    trained = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert id(detector.backbone.body.backbone.conv1[0].weight) not in trained
    assert id(detector.backbone.body.backbone.conv2[1].weight) in {id(p) for p in norms["params"]}


def test_the_optimizer_follows_the_encoder_unless_it_is_chosen() -> None:
    recipe = recipe_of(DetectorSettings(), 10, transformer=True)
    optimizer = make_optimizer(tiny_detector(), recipe)
    assert isinstance(optimizer, torch.optim.AdamW) and optimizer.param_groups[0]["weight_decay"] == 0.1
    assert recipe.lr == pytest.approx(1e-4)
    assert recipe_of(DetectorSettings(), 10).optimizer == "sgd"
    assert recipe_of(DetectorSettings(optimizer="sgd"), 10, transformer=True).lr == 0.01
    assert recipe_of(DetectorSettings(optimizer="adamw", lr=0.5), 10).lr == 0.5


def test_recipes_are_those_of_table_7() -> None:
    voc = DETECTION_RECIPES["voc-c4-24k"].with_images(16_551)
    assert (voc.model, voc.batch_size, voc.lr, voc.steps, voc.warmup) == ("c4", 16, 0.02, 24_000, 100)
    assert voc.sizes == tuple(range(480, 801, 32)) and voc.test_size == 800
    factor = voc.schedule()
    assert [factor(step) for step in (0, 50, 100, 17_999)] == pytest.approx([0.001, 0.5005, 1, 1])
    assert [factor(step) for step in (18_000, 21_999, 22_000, 23_999)] == pytest.approx(
        [0.1, 0.1, 0.01, 0.01]
    )
    coco = DETECTION_RECIPES["coco-c4-1x"]
    assert (coco.steps, [round(share * 90_000) for share in coco.milestones]) == (90_000, [60_000, 80_000])
    assert coco.sizes == (640, 672, 704, 736, 768, 800)
    half = coco.with_batch(8)
    assert (half.lr, half.steps, half.warmup) == (0.01, 180_000, 2000)  # the linear rule
    for group in TABLE_7.values():
        assert group.settings["recipe"] in DETECTION_RECIPES


def test_mini_has_steps_by_the_number_of_images() -> None:
    mini = DETECTION_RECIPES["mini"]
    assert mini.with_images(10).steps == 300 and mini.with_images(1000).steps == 3000
    assert mini.with_images(10).warmup == 30 and mini.with_images(1000).warmup == 100
