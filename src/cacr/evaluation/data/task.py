"""What every protocol works on: labelled images, and an encoder's features of them, computed once."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cacr.data import Problem, Source
from cacr.data.prepare import Progress
from cacr.encoders import Encoder, Reader, ReaderKind
from cacr.evaluation.data.labelled import LabelledData
from cacr.features.encode import MAX_UNREADABLE, encode, make_rows
from cacr.features.machine import Machine
from cacr.features.reader import fit_reader


@dataclass(frozen=True)
class LabelledFeatures:
    """Features (n, d), and classes (n,) or, where images show several, (n, classes) of zeros and ones.

    ``streamed`` features lie in a file: they are gone through in blocks, never copied whole.
    """

    values: Tensor
    labels: Tensor
    streamed: bool = False

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
        max_unreadable: Share of unreadable images that is tolerated.
        problems: Images that turned out to be unreadable.
        readers: Those that were fitted, by kind and number of components.
    """

    encoder: Encoder
    data: LabelledData
    seed: int = 0
    machine: Machine = field(default_factory=Machine)
    progress: Progress | None = None
    max_unreadable: float = MAX_UNREADABLE
    problems: list[Problem] = field(default_factory=list)
    readers: dict[tuple[ReaderKind, int], Reader] = field(default_factory=dict)

    @cached_property
    def train(self) -> LabelledFeatures:
        """Features of the training images."""
        return self.encode(self.data.train, self.data.train_labels)[0]

    @cached_property
    def test(self) -> LabelledFeatures:
        """Features of the test images."""
        return self.encode(self.data.test, self.data.test_labels)[0]

    def reader(self, kind: ReaderKind, components: int) -> Reader:
        """How features of this encoder are read: fitted on those of all training images, without labels.

        A reader that came with the encoder is not used, so that baselines, which have none, are treated alike.
        """
        if (kind, components) not in self.readers:
            self.readers[kind, components] = fit_reader(self.train.values, kind, components)
        return self.readers[kind, components]

    def read(self, features: LabelledFeatures, reader: Reader) -> Tensor:
        """Features (n, dim) as they are to be compared by cosine; in a file where memory cannot hold them."""
        large = features.streamed and 4 * len(features) * reader.dim > self.machine.memory
        out = make_rows(len(features), reader.dim, streamed=True) if large and reader.kind != "raw" else None
        return reader(features.values, out)

    def encode(self, source: Source, labels: NDArray[np.generic]) -> tuple[LabelledFeatures, Tensor]:
        """Features of images that have these labels, and the numbers (n,) of those that could be read."""
        features = encode(
            self.encoder, source, self.machine, self.progress, max_unreadable=self.max_unreadable
        )
        self.problems.extend(features.problems)
        # What does not fit into memory does not fit onto a device either: it stays where it is.
        device = features.values.device if features.streamed else self.machine.device
        chosen = torch.from_numpy(labels)[features.index].to(device)
        return LabelledFeatures(features.values.to(device), chosen, features.streamed), features.index
