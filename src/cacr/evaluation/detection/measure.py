"""Train a detector on an encoder, and test it on the test images."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from cacr.data import Problem
from cacr.distributed import rank, world_size
from cacr.errors import UserError
from cacr.evaluation.detection.batches import judged_pictures
from cacr.evaluation.detection.found import Found, found_of
from cacr.evaluation.detection.pictures import chosen_images, judge, sheet
from cacr.evaluation.detection.progress import DetectorProgress
from cacr.evaluation.detection.settings import DetectorSettings, recipe_of
from cacr.evaluation.detection.task import DetectionTask
from cacr.features.processes import gather_objects
from cacr.files import printable, write_atomically
from cacr.randomness import mixed_seed

MOST_LISTED = 1000
"""Largest number of left-out annotations and images that a result names."""


@dataclass(frozen=True)
class Detections:
    """The detections of a trained detector in the test images.

    Attributes:
        found: Detections per test image.
        details: How the detector was trained, and the picture of its best and worst images.
        checkpoints: Folder of its state until it has been tested.
    """

    found: Sequence[Found]
    details: dict[str, Any]
    checkpoints: Path


def detect(task: DetectionTask, settings: DetectorSettings, *, protocol: str, masks: bool) -> Detections:
    """Train a detector, or continue training, and apply it to the test images."""
    from cacr.evaluation.detection.detector import Shape, build_detector
    from cacr.evaluation.detection.room import require_room
    from cacr.evaluation.detection.training import DetectorTraining, measure_statistics, train_detector

    data = task.data
    recipe = recipe_of(settings, len(data.train), transformer=task.transformer)
    if recipe.batch_size < world_size():
        raise UserError(f"batch size {recipe.batch_size} cannot be divided between {world_size()} processes")
    shape = Shape(len(data.categories), masks, settings.freeze, settings.batch_norm)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(mixed_seed("detector-weights", task.seed))
        detector = build_detector(task.encoder, recipe, shape)
        require_room(detector, task.encoder.info.encoder, recipe, data, task.machine, masks=masks)
        digits = task.digits(protocol, settings.model_dump(mode="json"))
        job = DetectorTraining(
            detector,
            recipe,
            data.train,
            masks,
            task.seed,
            task.machine,
            task.checkpoints(digits),
            60 * settings.save_minutes,
            DetectorProgress(recipe.steps or 1, recipe.batch_size, len(data.train), task.progress),
        )
        train_detector(job)
        if settings.batch_norm == "sync":
            measure_statistics(job, recipe.precise)
        found = look(task, detector, recipe.test_size)
    unread = {problem for part in gather_objects(job.problems) for problem in part}
    task.problems.extend(sorted(unread, key=lambda problem: problem.index))
    name = f"detections-{digits}.jpg"
    judged = [judge(n, o, f) for n, (o, f) in enumerate(zip(data.test.objects, found, strict=True))]
    picture = sheet(data.test, found, chosen_images(judged)) if rank() == 0 else None
    if picture is not None:
        task.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(task.folder / name, picture)
    details = {
        "model": recipe.model,
        "steps": recipe.steps,
        "optimizer": recipe.optimizer,
        "lr": recipe.lr,
        "batch_size": recipe.batch_size,
        "trained_weights": sum(p.numel() for p in detector.parameters() if p.requires_grad),
        "objects": {"train": data.train.object_counts(), "test": data.test.object_counts()},
        "skipped_annotations": len(data.skipped),
        "skipped": [printable(text) for text in data.skipped[:MOST_LISTED]],
        "unreadable": [str(problem) for problem in (*data.problems, *task.problems)[:MOST_LISTED]],
        "pictures": name if picture is not None else None,
    }
    return Detections(found, details, job.folder)


@torch.inference_mode()
def look(task: DetectionTask, detector: nn.Module, size: int) -> list[Found]:
    """The detections in each test image; several processes share the work."""
    detector.eval()
    detector.transform.min_size = (size,)  # type: ignore[union-attr]
    images = np.arange(len(task.data.test))[rank() :: world_size()]
    own: dict[int, Found] = {}
    unread: list[Problem] = []
    for done, picture in enumerate(judged_pictures(task.data.test, images, workers=task.machine.workers), 1):
        if isinstance(picture, Problem):
            unread.append(picture)
            continue
        (output,) = detector([picture.image.to(task.machine.device).float() / 255])
        own[picture.index] = found_of(output)
        if task.progress is not None:
            task.progress(done, len(images))
    found = {index: each for share in gather_objects(own) for index, each in share.items()}
    task.problems.extend(problem for part in gather_objects(unread) for problem in part)
    nothing = Found(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), np.zeros(0, np.int64), None)
    return [found.get(index, nothing) for index in range(len(task.data.test))]
