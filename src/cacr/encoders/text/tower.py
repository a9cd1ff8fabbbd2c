"""The base class of text encoders: sentences to tokens, and tokens to features."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

AT_ONCE = 256
"""Sentences per forward pass if no gradients are needed."""


class Tokens(NamedTuple):
    """Sentences as numbers.

    Attributes:
        values: (sentences, length) int64, padded.
        cut: Number of sentences that were too long; their end is cut off.
    """

    values: Tensor
    cut: int


class TextTower(nn.Module, ABC):
    """Tokens (n, length) to features (n, dim).

    Attributes:
        dim: Dimension of the features.
        context: Largest number of tokens of a sentence; the rest is cut off.
        pad: The token that fills up shorter sentences.
    """

    dim: int
    context: int
    pad: int = 0

    @property
    def tokeniser_file(self) -> str | None:
        """The ``tokenizer.json``; None if it uses open_clip's vocabulary."""
        return None

    @abstractmethod
    def tokenise(self, sentences: Sequence[str]) -> Tokens:
        """The tokens of sentences, with start and end tokens."""

    @abstractmethod
    def forward(self, tokens: Tensor) -> Tensor:
        """Features (n, dim) of tokens (n, length)."""

    @abstractmethod
    def describe(self) -> dict[str, object]:
        """Everything that is needed to build the same text encoder again, for JSON."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write additional files, and the weights if they have their own file."""

    def notes_on_length(self, sentences: Sequence[str]) -> tuple[str, ...]:
        """Say how many sentences are cut; empty if none is."""
        if not sentences or not (cut := self.tokenise(sentences).cut):
            return ()
        return (
            f"{cut:,} of {len(sentences):,} sentences have more than {self.context} tokens, the limit of the text "
            "encoder: their ends are cut off",
        )

    @torch.no_grad()
    def encode(self, sentences: Sequence[str]) -> Tensor:
        """Features (n, dim) float32 on the CPU, in evaluation mode; the same for the same list of sentences."""
        training = self.training
        device = next(self.parameters()).device
        self.eval()
        found = [
            self(self.tokenise(sentences[start : start + AT_ONCE]).values.to(device)).float().cpu()
            for start in range(0, len(sentences), AT_ONCE)
        ]
        self.train(training)
        return torch.cat(found) if found else torch.empty(0, self.dim)
