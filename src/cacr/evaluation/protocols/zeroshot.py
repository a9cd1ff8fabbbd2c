"""Zero-shot classification: by the names of the classes, without training images."""

from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from cacr.evaluation.data.task import Task
from cacr.evaluation.registry import PROTOCOLS, Needs, ProtocolSettings, Score
from cacr.evaluation.results.metrics import METRICS
from cacr.features.words import PLAIN, class_sentences, class_vectors, read_prompts, readable

CONFUSED = 10
"""Largest number of confused pairs of classes that are named."""


class ZeroshotSettings(ProtocolSettings):
    """Zero-shot classification by the names of the classes."""

    quick: ClassVar[bool] = True
    needs: ClassVar[Needs] = "words"

    prompts: str = Field(
        PLAIN,
        description="prompt templates for class names: plain, imagenet (CLIP's 80), or a .txt or .json file",
    )


@PROTOCOLS.register("zeroshot")
def zeroshot(task: Task, settings: ZeroshotSettings) -> Score:
    """Zero-shot: the class whose prompt is nearest to the image, by cosine; no training images."""
    prompts = read_prompts(settings.prompts)
    classes = task.data.test.class_names or ()
    names = [readable(name, prompts) for name in classes]
    side = task.encoder.text
    vectors = class_vectors(side, names, prompts)
    test = task.test
    scores, labels = side.of_images(test.values) @ vectors.T, test.labels.cpu()
    notes = list(side.tower.notes_on_length(class_sentences(names, prompts)))
    shown = names
    if twins := len(names) - len(set(names)):
        notes.append(
            f"{twins} classes have the same name as another class: give them different names with prompts"
        )
        shown = [f"{name} ({own})" for name, own in zip(names, classes, strict=True)]
    return Score(
        METRICS[task.data.metric](scores, labels),
        metric=task.data.metric,
        details={
            "templates": len(prompts.templates),
            "chance": 1 / len(names),
            "per_class": _per_class(scores, labels, shown),
            "confused": _confused(scores, labels, shown),
        },
        notes=tuple(notes),
    )


def _per_class(scores: Tensor, labels: Tensor, names: list[str]) -> dict[str, float]:
    """Accuracy per class, the worst first."""
    right = (scores.argmax(dim=1) == labels).double()
    found = {
        name: right[of].mean().item()
        for number, name in enumerate(names)
        if bool((of := labels == number).any())
    }
    return dict(sorted(found.items(), key=lambda item: (item[1], item[0])))


def _confused(scores: Tensor, labels: Tensor, names: list[str]) -> list[dict[str, Any]]:
    """Which classes are confused with which, the most frequent first."""
    guesses = scores.argmax(dim=1)
    wrong = torch.stack([labels, guesses])[:, guesses != labels]
    pairs, counts = torch.unique(wrong, dim=1, return_counts=True)
    order = counts.argsort(descending=True, stable=True)[:CONFUSED].tolist()
    return [
        {"class": names[int(pairs[0, n])], "taken_for": names[int(pairs[1, n])], "images": int(counts[n])}
        for n in order
    ]
