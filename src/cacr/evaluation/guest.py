"""An encoder that no run of cacr trained, with the interface of a run for reports and comparisons."""

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
from cacr.training.settings.described import Described
from cacr.training.settings.resolve import resolve

IMAGES = 10_000
"""Assumed number of training images: the default settings that follow decide how a report draws views and weights."""


@dataclass(frozen=True)
class Guest(Run):
    """An encoder by its name. It has results, but no history, verdict or budget.

    Attributes:
        text: Name as in :func:`cacr.encoders.load_encoder`.
        download: Whether ``timm:NAME`` may download its weights.
    """

    text: str = ""
    download: bool = False

    @classmethod
    def visit(cls, text: str | os.PathLike[str], *, download: bool = False) -> "Guest":
        """Open an encoder by name; its results are in the folder in which ``cacr evaluate`` writes them.

        Raises:
            UserError: there is no such encoder.
        """
        place = locate(text)
        return cls(RunFolder(evaluation_folder(Path(text))), printable(place.name), place.text, download)

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder, with its preprocessing."""
        return load_encoder(self.text, download=self.download)

    @property
    def info(self) -> EncoderInfo:
        """Description of the encoder."""
        return self.encoder.info

    @property
    def has_encoder(self) -> bool:
        """False: the description does not come from a run."""
        return False

    @cached_property
    def _config(self) -> StoredConfig:
        """The settings of a training that would continue from it; reports use them to draw views."""
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
        """Fingerprint of the weights, as in results."""
        file = locate(self.text).file
        return weights_digest(self.encoder) if file is None else fingerprint(file)

    @property
    def results_folder(self) -> Path:
        """The folder of its results, which is all that is stored about it."""
        return self.folder.path


def is_guest(text: str | os.PathLike[str]) -> bool:
    """Whether a text names an encoder without a run; if nothing of this name exists, it is assumed to be a run.

    Raises:
        UserError: the text cannot be a path.
    """
    if os.fspath(text).startswith((TIMM, OPEN_CLIP)):
        return True
    path = Path(text)
    kind = kind_of(path)
    if kind != "folder":
        return kind == "file"
    place = locate(path)
    known = kind_of(path / WEIGHTS) is not None or place.kind != "stored" or place.path != path
    return known and not RunFolder(path).holds_run


def open_run_or_guest(text: str | os.PathLike[str], *, download: bool = False) -> Run:
    """The run in a folder, or any other encoder."""
    return Guest.visit(text, download=download) if is_guest(text) else Run.open(Path(text))
