"""Ways to write an encoder, by name."""

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
"""Normalised images (n, 3, s, s) -> features (n, feature_dim), by the software that the file is for."""


class Files(NamedTuple):
    """Where the parts of an export lie.

    Attributes:
        weights: The encoder.
        description: Architecture, image size, normalisation, training; where :func:`cacr.load_encoder` looks for it.
        card: The model card.
        reader: How features are to be compared.
    """

    weights: Path
    description: Path
    card: Path
    reader: Path


class Format(ABC):
    """One kind of file.

    Attributes:
        suffix: What the file's name ends in; empty for a folder.
    """

    suffix: str

    def files(self, out: Path) -> Files:
        """The file, and what is written beside it.

        ``photos.json`` to ``photos.safetensors`` and ``photos.onnx.json`` to ``photos.onnx``: one folder may hold both.
        """

        def beside(suffix: str) -> Path:
            plain = out.suffix.lower() == WEIGHTS_SUFFIX
            return out.with_suffix(suffix) if plain else Path(f"{out}{suffix}")

        return Files(out, beside(".json"), beside(".md"), reader_file(out))

    def refusal(self, info: EncoderInfo) -> str | None:
        """Why an encoder cannot be written so, and what to do instead; None if it can."""
        return None

    def text_files(self, out: Path) -> tuple[Path, ...]:
        """What :meth:`write_text` may write."""
        return ()

    def write_text(self, encoder: Encoder, out: Path) -> str:
        """Write the text side of an encoder beside it, where the format has a place for it; returns what was done."""
        return f"the text side is not part of this format: `--to onnx` writes both, and {out.name} knows no words"

    @abstractmethod
    def write(self, encoder: Encoder, path: Path) -> None:
        """Write the file."""

    @abstractmethod
    def read(self, info: EncoderInfo, path: Path) -> Features:
        """Load the file as its users will, to compare its features with the original's."""

    @abstractmethod
    def code(self, info: EncoderInfo, name: str) -> str:
        """The lines of Python that load a file of this name."""


FORMATS: Registry[type[Format]] = Registry("export format")
