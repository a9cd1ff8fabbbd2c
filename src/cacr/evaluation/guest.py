"""An encoder that no run of ours trained, asked for what pages and comparisons ask of a run."""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch

from cacr.config import PretrainSettings
from cacr.encoders import Encoder, EncoderInfo, load_encoder, locate
from cacr.encoders.files import WEIGHTS
from cacr.encoders.origins import OPEN_CLIP, TIMM
from cacr.encoders.reader_file import weights_digest
from cacr.evaluation.contestants import evaluation_folder
from cacr.files import printable
from cacr.reading.files import kind_of
from cacr.runs.config_file import StoredConfig
from cacr.runs.folder import RunFolder
from cacr.runs.result import fingerprint
from cacr.runs.run import Run
from cacr.training.resolve import Described, resolve

IMAGES = 10_000
"""Images of the training that a guest has not had here: its defaults say how a page draws views and weighs."""


@dataclass(frozen=True)
class Guest(Run):
    """An encoder by the text that names it. It has results, but no history, verdict or budget.

    Attributes:
        text: What :func:`cacr.encoders.load_encoder` takes.
        download: Whether ``timm:NAME`` may fetch its weights.
    """

    text: str = ""
    download: bool = False

    @classmethod
    def visit(cls, text: str | os.PathLike[str], *, download: bool = False) -> "Guest":
        """The guest of a text; its results lie where ``cacr evaluate`` puts them.

        Raises:
            UserError: there is nothing of this name.
        """
        place = locate(text)
        return cls(RunFolder(evaluation_folder(Path(text))), printable(place.name), place.text, download)

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder, with its preprocessing."""
        return load_encoder(self.text, download=self.download)

    @property
    def info(self) -> EncoderInfo:
        """What the encoder is."""
        return self.encoder.info

    @property
    def has_encoder(self) -> bool:
        """No run describes it."""
        return False

    @cached_property
    def _config(self) -> StoredConfig:
        """The settings with which a training would continue from it: they say how a page draws its views."""
        info = self.info
        asked = PretrainSettings(
            data=self.text,
            encoder=info.encoder,
            width=info.width,
            image_size=info.image_size,
            init=self.text,
            view_options={"mean": info.mean, "std": info.std},
        )
        data = Described(self.name, IMAGES, info.image_size, in_memory=False)
        settings = resolve(asked, data, world_size=1, device=torch.device("cpu"))
        return StoredConfig(self.folder.path, settings, {})

    @property
    def digest(self) -> str:
        """Of the weights, as it stands in results."""
        file = locate(self.text).file
        return weights_digest(self.encoder) if file is None else fingerprint(file)

    @property
    def results_folder(self) -> Path:
        """All that a guest has is what was measured of it."""
        return self.folder.path


def is_guest(text: str | os.PathLike[str]) -> bool:
    """Whether a text names an encoder without a run; of nothing at all it is not known, and taken for a run.

    Raises:
        UserError: the text cannot be a path, or ``timm:`` has no name.
    """
    if os.fspath(text).startswith((TIMM, OPEN_CLIP)):
        return True
    path = Path(text)
    kind = kind_of(path)
    if kind != "folder":
        return kind == "file"
    known = (
        kind_of(path / WEIGHTS) is not None
        or locate(path).kind in ("hub", "clip")
        or locate(path).path != path
    )
    return known and not RunFolder(path).holds_run


def open_run_or_guest(text: str | os.PathLike[str], *, download: bool = False) -> Run:
    """The run of a folder, or the guest of any other encoder."""
    return Guest.visit(text, download=download) if is_guest(text) else Run.open(Path(text))
