"""The base class of export formats."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from cacr.encoders import Encoder, EncoderInfo
from cacr.encoders.files import reader_file
from cacr.registry import Registry

WEIGHTS_SUFFIX = ".safetensors"

Features = Callable[[Tensor], Tensor]
"""Normalised images (n, 3, s, s) -> features (n, feature_dim), computed by the target software."""


class Files(NamedTuple):
    """The files of an export.

    Attributes:
        weights: The encoder.
        description: Architecture, image size, normalisation, training; :func:`cacr.load_encoder` reads it.
        card: The model card.
        reader: The reader of the features.
    """

    weights: Path
    description: Path
    card: Path
    reader: Path


class Format(ABC):
    """One export format.

    Attributes:
        suffix: Suffix of the file; empty for a folder.
    """

    suffix: str

    def files(self, out: Path) -> Files:
        """The file, and the other files that are written.

        ``photos.json`` for ``photos.safetensors`` and ``photos.onnx.json`` for ``photos.onnx``: one folder may have
        both.
        """

        def next_to(suffix: str) -> Path:
            plain = out.suffix.lower() == WEIGHTS_SUFFIX
            return out.with_suffix(suffix) if plain else Path(f"{out}{suffix}")

        return Files(out, next_to(".json"), next_to(".md"), reader_file(out))

    def refusal(self, info: EncoderInfo) -> str | None:
        """Why the format does not support an encoder, and what to do instead; None if it does."""
        return None

    def text_files(self, out: Path) -> tuple[Path, ...]:
        """The files that :meth:`write_text` may write."""
        return ()

    def write_text(self, encoder: Encoder, out: Path) -> str:
        """Write the text encoder, if the format supports it; return a note."""
        return f"this format does not include the text encoder, and {out.name} cannot encode text: use `--to onnx`"

    @abstractmethod
    def write(self, encoder: Encoder, path: Path) -> None:
        """Write the file."""

    @abstractmethod
    def read(self, info: EncoderInfo, path: Path) -> Features:
        """Load the file as its users will, to compare its features with the original."""

    @abstractmethod
    def code(self, info: EncoderInfo, name: str) -> str:
        """Python code that loads a file of this name."""


FORMATS: Registry[type[Format]] = Registry("export format")
