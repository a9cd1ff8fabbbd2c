"""The images of a source with their features, to search, select, group and predict."""

import os
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor
from torch.nn.functional import normalize

from cacr.data import KnownLabels, Part, Source, known_labels, open_source
from cacr.data.prepare import Progress
from cacr.data.source import Indices
from cacr.encoders import Encoder, Reader, load_encoder
from cacr.errors import UserError
from cacr.features.cache import encode_once
from cacr.features.encode import MAX_UNREADABLE, encode
from cacr.features.machine import Machine, choose_machine
from cacr.features.reader import asked_reader, choose_reader
from cacr.features.stored import read_features, require_same_encoder
from cacr.files import storable


@dataclass(frozen=True)
class Collection:
    """Readable images, their features, and their known labels.

    Attributes:
        encoder: The encoder.
        source: Only these images.
        index: (n,) their numbers in the data, where unreadable images count too.
        features: (n, feature_dim) features of the encoder.
        vectors: (n, dim) unit vectors for comparisons: features after the encoder's own reader, or after a fitted one.
        reader: Turns features into vectors.
        known: Labels of all or some images; None without labels.
        unreadable: Number of images left out because they are unreadable.
        machine: Device and workers for encoding and decoding.
        cached: Whether the features come from the cache.
    """

    encoder: Encoder
    source: Source
    index: Indices
    features: Tensor
    vectors: Tensor
    reader: Reader
    known: KnownLabels | None
    unreadable: int
    machine: Machine
    cached: bool = False

    def __len__(self) -> int:
        return len(self.features)

    def read(self, features: Tensor) -> Tensor:
        """Features (m, feature_dim) of other images as unit vectors (m, dim)."""
        return normalize(self.reader(features), dim=1)

    def label(self, number: int) -> str | None:
        """The class name of an image; None without a label."""
        name = None if self.known is None else self.known.name(number)
        return None if name is None else storable(name)

    def name(self, number: int) -> str:
        """The name of an image in lists."""
        return storable(self.source.describe(number))

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user on how weights, images and labels were read."""
        loaded = self.encoder.loaded
        return (() if loaded is None else (loaded.text,)) + self._about_data

    @property
    def _about_data(self) -> tuple[str, ...]:
        return self.source.notes + (() if self.known is None else self.known.notes)

    @property
    def reused(self) -> tuple[str, ...]:
        """A note if the features come from the cache."""
        return (f"features of {len(self):,} images from the cache",) if self.cached else ()

    def labelled(self) -> tuple[Indices, Indices, tuple[str, ...]]:
        """Numbers of the images that have a label, their classes, and the classes' names.

        Raises:
            UserError: there are no labels.
        """
        if self.known is None or not self.known.class_names:
            why = "".join(f"; {note}" for note in self._about_data)
            raise UserError(
                f"{self.source.name} has no labels: give some with --labels FILE.csv, with the "
                f"columns path and label{why}"
            )
        where = self.known.where
        if not len(where):
            raise UserError(f"none of the labelled images of {self.source.name} is readable")
        return where, self.known.labels[where], self.known.class_names


@dataclass(frozen=True)
class Opened:
    """Images that are opened but not yet encoded, so that other problems of a command can be reported first.

    Attributes:
        encoder: The encoder.
        source: The images.
        known: Labels of all or some images; None without labels.
    """

    encoder: Encoder
    source: Source
    known: KnownLabels | None

    def collect(
        self,
        *,
        features: str | os.PathLike[str] | None = None,
        cache: bool = True,
        reader: str | None = None,
        reader_components: int | None = None,
        max_unreadable: float = MAX_UNREADABLE,
        progress: Progress | None = None,
    ) -> Collection:
        """Encode the images, or read their stored features.

        Args:
            features: An ``.npz`` of ``cacr embed`` with this data and this encoder, instead of encoding.
            cache: Store the features of image files, and use stored ones.
            reader: ``raw``, ``centred``, ``half_white`` or ``white``, fitted on these images; default: the one saved
                with the encoder, or else the default reader fitted on these images.
            reader_components: Number of principal components of that reader.
            max_unreadable: Largest accepted share of unreadable images; they are left out.
            progress: Called with the number of images encoded and the total.
        """
        kind = asked_reader(reader, reader_components)
        encoder, source = self.encoder, self.source
        machine = choose_machine([source])
        if features is None:
            make = encode_once if cache else encode
            found = make(encoder, source, machine, progress, max_unreadable=max_unreadable)
        else:
            found = read_features(Path(features), encoder, source)
            require_same_encoder(encoder, source, found, int(found.index[0]), Path(features))
        index = found.index.numpy()
        all_read = len(index) == len(source)
        chosen = choose_reader(encoder, found.values, kind, reader_components)
        return Collection(
            encoder,
            source if all_read else source.subset(index),
            index,
            found.values,
            normalize(chosen(found.values), dim=1),
            chosen,
            self.known if self.known is None or all_read else self.known.subset(index),
            len(found.problems),
            machine,
            found.cached,
        )


def open_images(
    run: str | os.PathLike[str],
    data: str,
    *,
    images: str | None = None,
    labels: str | os.PathLike[str] | None = None,
    part: Part = "pretrain",
    data_root: Path | str = Path("data"),
    download: bool = False,
) -> Opened:
    """Open an encoder and images, and match labels to the images.

    Args:
        run: What :func:`cacr.encoders.load_encoder` takes: a run folder, ``timm:NAME@FILE``, a checkpoint.
        data: A folder of images, or the name of a data set.
        images: A list of the images to use, or ``except:FILE``.
        labels: A CSV file with the columns ``path`` and ``label``; default: the labels of the data itself.
        part: Which images, for data with parts.
        data_root: Folder of named data sets.
        download: Allow downloads of data sets.
    """
    encoder = load_encoder(run, download=download)
    source = open_source(data, part=part, root=Path(data_root), download=download, images=images)
    return Opened(encoder, source, known_labels(source, None if labels is None else Path(labels)))
