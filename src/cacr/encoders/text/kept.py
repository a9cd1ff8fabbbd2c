"""Features of captions by a text encoder that is not trained: computed once, and looked up by sentence."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor

from cacr.encoders.reader_file import module_digest
from cacr.encoders.text.tower import TextTower

MOST_BYTES = 2**30
"""Largest size of stored features; with more captions they are computed again in each step."""


class KeptCaptions:
    """The features of a known set of sentences.

    They are computed in alphabetical order, so that they are the same numbers at every start of a run.

    Args:
        tower: The text encoder, in evaluation mode.
        sentences: In any order, with repetitions.
    """

    def __init__(self, tower: TextTower, sentences: Iterable[str]) -> None:
        self._tower = tower
        distinct = tuple(sorted(set(sentences)))
        fits = 4 * len(distinct) * tower.dim <= MOST_BYTES
        self._row = {sentence: row for row, sentence in enumerate(distinct)} if fits else {}
        self._features = torch.empty(0, tower.dim)
        if self._row:
            self._features = _encode(_Sentences(distinct, module_digest(tower), tower))

    def __len__(self) -> int:
        return len(self._row)

    def __call__(self, sentences: Sequence[str]) -> Tensor:
        """Features (n, dim); if one of the sentences is unknown, all are computed in one batch."""
        rows = [self._row.get(sentence, -1) for sentence in sentences]
        return self._tower.encode(sentences) if -1 in rows else self._features[rows]


@dataclass(frozen=True)
class _Sentences:
    """Sentences and their text encoder, which is identified by its weights."""

    sentences: tuple[str, ...]
    digest: str
    tower: TextTower = field(compare=False)


@lru_cache(maxsize=1)  # a timed run is built twice, and comparisons train many heads on the same captions
def _encode(what: _Sentences) -> Tensor:
    return what.tower.encode(what.sentences)
