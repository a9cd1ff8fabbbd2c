"""The input of protocols that need boxes: an encoder, images with annotated objects, a folder for checkpoints."""

import contextlib
import json
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cacr.data import Problem
from cacr.data.annotated import AnnotatedSource
from cacr.data.prepare import Progress
from cacr.distributed import rank
from cacr.encoders import Encoder, is_transformer
from cacr.evaluation.data.annotated import AnnotatedData
from cacr.features.machine import Machine


@dataclass
class DetectionTask:
    """One encoder and one set of images with annotated objects.

    Attributes:
        encoder: The encoder to measure.
        data: Images and objects.
        seed: Seed of the detector's initial weights, of order, flips and samples.
        machine: Device, and number of decoding processes.
        folder: Folder of results; unfinished detectors have their own folder in it.
        about: Facts about the measurement apart from the data: encoder, weights, locations.
        progress: Called while a detector is trained and tested.
        problems: Images that were found to be unreadable.
    """

    encoder: Encoder
    data: AnnotatedData
    seed: int
    machine: Machine
    folder: Path
    about: dict[str, Any] = field(default_factory=dict)
    progress: Progress | None = None
    problems: list[Problem] = field(default_factory=list)

    @property
    def transformer(self) -> bool:
        """Whether the encoder is a transformer, which is trained differently."""
        return is_transformer(self.encoder.info.encoder)

    def digits(self, protocol: str, settings: dict[str, Any]) -> str:
        """Eight digits that identify the training: equal only for the same settings, data and software."""
        versions = [version(name) for name in ("cacr", "torch", "torchvision")]
        what = [protocol, settings, self.seed, self.about, versions, self.data.categories]
        found = blake2b(json.dumps(what, sort_keys=True, default=str).encode(), digest_size=4)
        for source in (self.data.train, self.data.test):
            _add(found, source)
        return found.hexdigest()

    def checkpoints(self, digits: str) -> Path:
        """Folder of the state of an unfinished detector."""
        return self.folder / f"detector-{digits}"


def _add(found: blake2b, source: AnnotatedSource) -> None:
    for index, objects in enumerate(source.objects):
        found.update(str(source.paths[index].name).encode(errors="surrogateescape"))
        found.update(objects.boxes.tobytes() + objects.classes.tobytes())


def remove_checkpoints(folder: Path) -> None:
    """Remove the checkpoints of a finished detector; other files stay."""
    if rank() != 0:
        return
    with contextlib.suppress(OSError):
        for file in folder.glob("step-*.pt"):
            file.unlink()
        folder.rmdir()
