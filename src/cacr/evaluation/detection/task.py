"""What protocols that need boxes work on: an encoder, images with marked objects, a place for what is unfinished."""

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
    """One encoder on one set of images with marked objects.

    Attributes:
        encoder: What is measured.
        data: Images and objects.
        seed: Of the detector's first weights, of order, flips and samples.
        machine: Where to compute, and the number of decoding processes.
        folder: Where results go; unfinished detectors lie in a folder of their own in it.
        about: What is measured, besides what the data says: encoder, weights, places.
        progress: Called while a detector is trained and judged.
        problems: Images that turned out to be unreadable.
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
        """Whether the encoder is one, which is trained otherwise."""
        return is_transformer(self.encoder.info.encoder)

    def digits(self, protocol: str, settings: dict[str, Any]) -> str:
        """Eight digits that are the same only for the same training on the same data with the same software."""
        versions = [version(name) for name in ("cacr", "torch", "torchvision")]
        what = [protocol, settings, self.seed, self.about, versions, self.data.categories]
        found = blake2b(json.dumps(what, sort_keys=True, default=str).encode(), digest_size=4)
        for source in (self.data.train, self.data.test):
            _add(found, source)
        return found.hexdigest()

    def checkpoints(self, digits: str) -> Path:
        """Where the state of an unfinished detector is kept."""
        return self.folder / f"detector-{digits}"


def _add(found: blake2b, source: AnnotatedSource) -> None:
    for index, objects in enumerate(source.objects):
        found.update(str(source.paths[index].name).encode(errors="surrogateescape"))
        found.update(objects.boxes.tobytes() + objects.classes.tobytes())


def remove_checkpoints(folder: Path) -> None:
    """Remove what a finished detector needs no more; what else somebody put there stays."""
    if rank() != 0:
        return
    with contextlib.suppress(OSError):
        for file in folder.glob("step-*.pt"):
            file.unlink()
        folder.rmdir()
