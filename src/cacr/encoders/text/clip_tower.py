"""CLIP's text transformer with random weights, as open_clip builds it, with CLIP's own vocabulary."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cacr.encoders.text.tower import TextTower, Tokens
from cacr.errors import MissingExtraError, UserError

HEAD_WIDTH = 64
"""Width of an attention head."""


class ClipTower(TextTower):
    """A causal transformer over byte-pair tokens; the feature is that of the last token.

    Args:
        width: Width of the transformer, a multiple of 64, or less than 64 for one attention head.
        layers: Number of layers.
        context: Largest number of tokens of a sentence.
    """

    def __init__(self, width: int = 512, layers: int = 12, context: int = 77) -> None:
        super().__init__()
        if width > HEAD_WIDTH and width % HEAD_WIDTH:
            raise UserError(f"text_width={width} is not a multiple of {HEAD_WIDTH}, the width of a head")
        self.dim, self.layers, self.context = width, layers, context
        self.transformer = _open_clip().transformer.TextTransformer(
            context_length=context,
            width=width,
            heads=max(1, width // HEAD_WIDTH),
            layers=layers,
            output_dim=None,
        )

    def tokenise(self, sentences: Sequence[str]) -> Tokens:
        """Byte pairs in lower case, padded with 0 to the full context."""
        reader = _tokeniser()
        begin, end = reader.sot_token_id, reader.eot_token_id
        values, cut = torch.zeros(len(sentences), self.context, dtype=torch.long), 0
        for row, sentence in zip(values, sentences, strict=True):
            found = reader.encode(sentence)
            cut += len(found) > self.context - 2
            kept = [begin, *found[: self.context - 2], end]
            row[: len(kept)] = torch.tensor(kept)
        return Tokens(values, cut)

    def forward(self, tokens: Tensor) -> Tensor:
        """Features (n, width) of tokens (n, context)."""
        features: Tensor = self.transformer(tokens)
        return features

    def describe(self) -> dict[str, object]:
        """Its shape."""
        return {"kind": "clip", "width": self.dim, "layers": self.layers, "context": self.context}

    def save(self, folder: Path) -> None:
        """Does nothing: the vocabulary is that of open_clip, and the weights are stored with those of the heads."""


@cache
def _tokeniser() -> Any:
    return _open_clip().tokenizer.SimpleTokenizer()


def _open_clip() -> Any:
    try:
        import open_clip
    except ImportError:
        raise MissingExtraError("the text encoder clip", "text") from None
    return open_clip
