"""Retrieval between images and captions."""

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from cacr.evaluation.data.task import Task
from cacr.evaluation.registry import PROTOCOLS, Needs, ProtocolSettings, Score
from cacr.features.neighbours import nearest_keys
from cacr.features.pairing import KS, Pairing, find_captions, find_images, same_sentences

CONFUSED = 20
"""Largest number of confused captions that are named."""


SHOWN, NEGATIVES = 12, 3
"""Number of images whose caption weights are stored, and number of captions of other images for each of them."""

QUERIES = 1024
"""Images per batch in the search for the nearest caption."""


class CaptionsSettings(ProtocolSettings):
    """Settings of the retrieval between images and captions."""

    own_measure: ClassVar[bool] = True
    quick: ClassVar[bool] = True
    needs: ClassVar[Needs] = "captions"


@PROTOCOLS.register("captions")
def captions(task: Task, settings: CaptionsSettings) -> Score:
    """Images find their captions, and captions their images: recall@1, 5 and 10 in both directions."""
    source = task.data.test
    features, index = task.encode(source, np.zeros(len(source), dtype=np.int64))
    assert source.captions is not None  # checked by open_judged
    captions = [source.captions[number] for number in index.tolist()]
    sentences = [sentence for each in captions for sentence in each]
    owner = torch.tensor([number for number, each in enumerate(captions) for _ in each])
    same = same_sentences(sentences)
    side = task.encoder.text
    images, texts = side.of_images(features.values), side.of_texts(sentences)
    ways = {
        "image to text": find_captions(images, texts, owner, same),
        "text to image": find_images(images, texts, owner, same),
    }
    return Score(
        sum(way.recall(KS[-1]) for way in ways.values()) / len(ways),
        metric=f"mean recall@{KS[-1]}",
        also={f"{name} recall@{k}": way.recall(k) for name, way in ways.items() for k in KS},
        details={
            "images": len(images),
            "captions": len(texts),
            "median_rank": {name: way.median_rank for name, way in ways.items()},
            "chance": {f"{name} recall@{k}": way.chance(k) for name, way in ways.items() for k in KS},
            "confused": _confused(images, texts, owner, same, sentences),
            "weights": _weights(images, texts, owner, same, sentences, side.scale),
        },
        notes=(_by_chance(ways), *side.tower.notes_on_length(sentences)),
    )


def _by_chance(ways: dict[str, Pairing]) -> str:
    """Describe the recall by chance."""
    found = ", ".join(f"{name} {way.chance(KS[-1]):.1%}" for name, way in ways.items())
    return f"recall@{KS[-1]} by chance: {found}"


def _weights(
    images: Tensor, texts: Tensor, owner: Tensor, same: Tensor, sentences: list[str], scale: float
) -> list[dict[str, Any]]:
    """How images weight captions of other images: the largest weights, relative to the average, for a sample of images.

    The weight of caption j is that of a negative, softmax_j(scale cos), times the number of negatives. Equal captions
    are named once.
    """
    found = []
    for image in torch.linspace(0, len(images) - 1, min(SHOWN, len(images))).round().long().tolist():
        others = (owner != image).nonzero().flatten()
        if not len(others):
            continue
        cosines = texts @ images[image]
        weights = (scale * cosines[others]).softmax(0) * len(others)
        heaviest: dict[int, int] = {}  # per caption
        for place in weights.argsort(descending=True, stable=True).tolist():
            heaviest.setdefault(int(same[others[place]]), place)
        own = int((owner == image).nonzero()[0])
        found.append(
            {
                "caption": sentences[own],
                "cosine": cosines[own].item(),
                "most": [
                    {"caption": sentences[int(others[place])], "weight": weights[place].item()}
                    for place in list(heaviest.values())[:NEGATIVES]
                ],
            }
        )
    return found


def _confused(
    images: Tensor, texts: Tensor, owner: Tensor, same: Tensor, sentences: list[str]
) -> list[dict[str, Any]]:
    """Images whose nearest caption belongs to another image, the most confident first."""
    nearest = [nearest_keys(part, texts, 1) for part in torch.split(images, QUERIES)]
    best, place = (torch.cat(parts).flatten() for parts in zip(*nearest, strict=True))
    cosines = (images[owner] * texts).sum(dim=1)
    own = torch.full((len(images),), -torch.inf).scatter_reduce(0, owner, cosines, "amax")
    margin = torch.where(owner[place] == torch.arange(len(images)), -torch.inf, best - own)
    first = {int(image): number for number, image in reversed(list(enumerate(owner.tolist())))}
    found = []
    for image in margin.argsort(descending=True)[:CONFUSED].tolist():
        if margin[image] > 0 and same[place[image]] not in same[owner == image]:
            own_text = sentences[first[image]]
            found.append({"caption": own_text, "taken_for": sentences[int(place[image])], "image": image})
    return found
