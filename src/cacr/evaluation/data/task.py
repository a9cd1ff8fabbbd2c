"""The input of a protocol: labelled images, and an encoder's features of them, computed once."""

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
    """Features (n, d), and classes (n,) or, if images show several, (n, classes) of zeros and ones.

    ``streamed`` features are in a file: they are read in blocks and never copied as a whole.
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
        encoder: The encoder to measure.
        data: Images and labels.
        seed: Seed of draws and classifiers.
        machine: Device, batch size and workers for encoding.
        progress: Called while a protocol works.
        max_unreadable: Largest accepted share of unreadable images.
        problems: Images that were found to be unreadable.
        readers: Fitted readers, by kind and number of components.
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
        """The reader of this encoder's features, fitted on all training images, without labels.

        A reader that came with the encoder is not used: baselines do not have one, and all must be treated equally.
        """
        if (kind, components) not in self.readers:
            self.readers[kind, components] = fit_reader(self.train.values, kind, components)
        return self.readers[kind, components]

    def read(self, features: LabelledFeatures, reader: Reader) -> Tensor:
        """Read features (n, dim), to be compared by cosine; in a file if they do not fit into memory."""
        large = features.streamed and 4 * len(features) * reader.dim > self.machine.memory
        out = make_rows(len(features), reader.dim, streamed=True) if large and reader.kind != "raw" else None
        return reader(features.values, out)

    def encode(self, source: Source, labels: NDArray[np.generic]) -> tuple[LabelledFeatures, Tensor]:
        """Features of images with these labels, and the numbers (n,) of the readable ones."""
        features = encode(
            self.encoder, source, self.machine, self.progress, max_unreadable=self.max_unreadable
        )
        self.problems.extend(features.problems)
        # What does not fit into memory does not fit onto a device either: it stays in its file.
        device = features.values.device if features.streamed else self.machine.device
        chosen = torch.from_numpy(labels)[features.index].to(device)
        return LabelledFeatures(features.values.to(device), chosen, features.streamed), features.index
