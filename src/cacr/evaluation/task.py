"""What every protocol works on: labelled images, and an encoder's features of them, computed once."""

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from cacr.data import Problem, Source
from cacr.encoders import Encoder
from cacr.evaluation.features import Progress, encode
from cacr.evaluation.labelled import LabelledData, labels_of
from cacr.evaluation.machine import Machine


@dataclass(frozen=True)
class LabelledFeatures:
    """Features (n, d) and classes (n,)."""

    values: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)


@dataclass
class Task:
    """One encoder on one set of labelled images.

    Attributes:
        encoder: What is measured.
        data: Images and labels.
        seed: Of draws and classifiers.
        machine: Where and in what portions images are encoded.
        progress: Called while a protocol works.
        problems: Images that turned out to be unreadable.
    """

    encoder: Encoder
    data: LabelledData
    seed: int = 0
    machine: Machine = field(default_factory=Machine)
    progress: Progress | None = None
    problems: list[Problem] = field(default_factory=list)

    @cached_property
    def train(self) -> LabelledFeatures:
        """Features of the training images."""
        return self._encode(self.data.train)

    @cached_property
    def test(self) -> LabelledFeatures:
        """Features of the test images."""
        return self._encode(self.data.test)

    def _encode(self, source: Source) -> LabelledFeatures:
        features = encode(self.encoder, source, self.machine, self.progress)
        self.problems.extend(features.problems)
        labels = torch.from_numpy(labels_of(source))[features.index]
        return LabelledFeatures(features.values.to(self.machine.device), labels.to(self.machine.device))
