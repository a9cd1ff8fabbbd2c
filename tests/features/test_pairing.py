"""Recall of images and captions, against a literal computation."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from cacr.features import pairing
from cacr.features.pairing import find_captions, find_images, same_sentences

CAPTIONS = ["a dog", "A dog .", "the snow", "a dog", "two cats", "a red  disc"]
OWNER = torch.tensor([0, 0, 1, 2, 2, 3])


def test_captions_that_differ_in_case_space_or_a_full_stop_are_the_same() -> None:
    assert same_sentences(CAPTIONS).tolist() == [0, 0, 1, 0, 2, 3]
    assert same_sentences(["a red disc", "a red  disc."]).tolist() == [0, 0]


@pytest.mark.parametrize("block", [1, 13, 4_000_000])
@pytest.mark.parametrize("seed", range(5))
def test_ranks_are_those_of_a_sorted_list_with_equal_captions_as_hits(
    seed: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairing, "BLOCK", block)
    draw = torch.Generator().manual_seed(seed)
    images, texts = (normalize(torch.randn(n, 3, generator=draw), dim=1) for n in (4, 6))
    same = same_sentences(CAPTIONS)
    said = [{int(same[c]) for c in range(6) if OWNER[c] == i} for i in range(4)]
    cosines = (images @ texts.T).numpy()
    to_text, to_image = (find(images, texts, OWNER, same) for find in (find_captions, find_images))
    for i in range(4):
        order = np.argsort(-cosines[i])
        first = next(place for place, c in enumerate(order) if int(same[c]) in said[i])
        assert to_text.ranks[i] == first + 1
    for c in range(6):
        order = np.argsort(-cosines[:, c])
        first = next(place for place, i in enumerate(order) if int(same[c]) in said[i])
        assert to_image.ranks[c] == first + 1
    assert to_text.recall(1) == np.mean([int(r) == 1 for r in to_text.ranks])
    assert to_image.median_rank == np.median(to_image.ranks)


def test_vectors_that_are_all_alike_find_nothing() -> None:
    images, texts = torch.ones(4, 3), torch.ones(6, 3)
    found = find_captions(images, texts, OWNER, torch.arange(6))
    assert found.recall(1) == 0 and found.ranks.tolist() == [5, 6, 5, 6]


def test_chance_is_what_random_orders_score() -> None:
    draw = np.random.default_rng(0)
    found = find_captions(torch.eye(4), torch.eye(4)[OWNER], OWNER, same_sentences(CAPTIONS))
    assert found.hits.tolist() == [3, 1, 4, 1]
    drawn = [draw.permutation(6)[:hits].min() < 2 for hits in found.hits.tolist() for _ in range(4000)]
    assert found.chance(2) == pytest.approx(np.mean(drawn), abs=0.03)


def test_memory_does_not_grow_with_the_square_of_the_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of all images and all sentences would have 400 million entries here."""
    made: list[int] = []
    zeros = torch.zeros

    def counted(*shape: int, **options: Any) -> torch.Tensor:
        made.append(math.prod(shape))
        return zeros(*shape, **options)

    monkeypatch.setattr(torch, "zeros", counted)
    monkeypatch.setattr(pairing, "BLOCK", 200_000)
    images = normalize(torch.randn(20_000, 2, generator=torch.Generator().manual_seed(0)), dim=1)
    found = find_captions(images[:50], images, torch.arange(20_000) // 400, torch.arange(20_000))
    assert len(found.ranks) == 50 and made and max(made) <= 200_000
