"""A text tower: sentences to tokens, and tokens to features."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

AT_ONCE = 256
"""Sentences that are encoded in one pass where no gradients are needed."""


class Tokens(NamedTuple):
    """Sentences as numbers.

    Attributes:
        values: (sentences, length) int64, padded.
        cut: Sentences that were longer than the tower takes; their end is left out.
    """

    values: Tensor
    cut: int


class TextTower(nn.Module, ABC):
    """Tokens (n, length) to features (n, dim).

    Attributes:
        dim: Dimension of the features.
        context: Tokens of a sentence, at most; its end is left out where it has more.
        pad: The token that fills up shorter sentences.
    """

    dim: int
    context: int
    pad: int = 0

    @property
    def tokeniser_file(self) -> str | None:
        """The ``tokenizer.json`` that it reads by; None where its words are open_clip's."""
        return None

    @abstractmethod
    def tokenise(self, sentences: Sequence[str]) -> Tokens:
        """The tokens of sentences, with the marks of their beginning and end."""

    @abstractmethod
    def forward(self, tokens: Tensor) -> Tensor:
        """Features (n, dim) of tokens (n, length)."""

    @abstractmethod
    def describe(self) -> dict[str, object]:
        """What it takes to build the same tower again, as JSON has it."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write what is needed beside its weights, and the weights where they have a file of their own."""

    def notes_on_length(self, sentences: Sequence[str]) -> tuple[str, ...]:
        """How many sentences are cut, in words; nothing where none is."""
        if not sentences or not (cut := self.tokenise(sentences).cut):
            return ()
        return (
            f"{cut:,} of {len(sentences):,} sentences have more than the {self.context} tokens that the text encoder "
            "takes: their ends are cut off",
        )

    @torch.no_grad()
    def encode(self, sentences: Sequence[str]) -> Tensor:
        """Features (n, dim) float32 on the CPU, by the tower at rest; the same for the same list of sentences."""
        training = self.training
        device = next(self.parameters()).device
        self.eval()
        found = [
            self(self.tokenise(sentences[start : start + AT_ONCE]).values.to(device)).float().cpu()
            for start in range(0, len(sentences), AT_ONCE)
        ]
        self.train(training)
        return torch.cat(found) if found else torch.empty(0, self.dim)
