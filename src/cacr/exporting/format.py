"""Ways to write an encoder, by name."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from torch import Tensor

from cacr.encoders import Encoder, EncoderInfo
from cacr.registry import Registry

Features = Callable[[Tensor], Tensor]
"""Normalised images (n, 3, s, s) -> features (n, feature_dim), by the software that the file is for."""


class Format(ABC):
    """One kind of file.

    Attributes:
        suffix: What the file's name ends in.
    """

    suffix: str

    def refusal(self, info: EncoderInfo) -> str | None:
        """Why an encoder cannot be written so, and what to do instead; None if it can."""
        return None

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
