"""The images of a source with their features: what is searched, selected from, grouped and guessed."""

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
    """Images that could be read, their features, and what is known of their classes.

    Attributes:
        encoder: What encoded them.
        source: These images only.
        index: (n,) their numbers in the data, in which unreadable images count too.
        features: (n, feature_dim) as the encoder gives them.
        vectors: (n, dim) of unit length, as they are compared: read, by the encoder's own reader or a fitted one.
        reader: How features become vectors.
        known: Labels, of all images or some; None without any.
        unreadable: Images that were left out because they cannot be read.
        machine: Where images are encoded and decoded.
        cached: Whether the features were kept from an earlier time.
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
        """The class of an image by name; None without a label."""
        name = None if self.known is None else self.known.name(number)
        return None if name is None else storable(name)

    def name(self, number: int) -> str:
        """An image as lists name it."""
        return storable(self.source.describe(number))

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about how weights, images and labels were read."""
        loaded = self.encoder.loaded
        return (() if loaded is None else (loaded.text,)) + self._about_data

    @property
    def _about_data(self) -> tuple[str, ...]:
        return self.source.notes + (() if self.known is None else self.known.notes)

    @property
    def reused(self) -> tuple[str, ...]:
        """That nothing was encoded, in words; nothing where images were."""
        return (f"features of {len(self):,} images from the cache",) if self.cached else ()

    def labelled(self) -> tuple[Indices, Indices, tuple[str, ...]]:
        """Numbers of the images that have a label, their classes, and the classes' names.

        Raises:
            UserError: there are no labels.
        """
        if self.known is None or not self.known.class_names:
            why = "".join(f"; {note}" for note in self._about_data)
            raise UserError(
                f"{self.source.name} has no labels: give those that there are with --labels FILE.csv, with the "
                f"columns path and label{why}"
            )
        where = self.known.where
        if not len(where):
            raise UserError(f"none of the labelled images of {self.source.name} can be read")
        return where, self.known.labels[where], self.known.class_names


@dataclass(frozen=True)
class Opened:
    """Images that are found but not yet encoded: what is wrong with the rest of a command can still be told at once.

    Attributes:
        encoder: What will encode them.
        source: The images.
        known: Labels, of all images or some; None without any.
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
            features: The ``.npz`` that ``cacr embed`` wrote of this data with this encoder: spares encoding it.
            cache: Keep the features of files for the next time, and use those that were kept.
            reader: ``raw``, ``centred``, ``half_white`` or ``white``, fitted on these images; left out: the one saved
                with the encoder, or where there is none the default one fitted on these images.
            reader_components: Principal components of that reader.
            max_unreadable: Share of unreadable images that is tolerated; they are left out.
            progress: Called with the number of images encoded and in all.
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
    """Open an encoder and images, and match labels to them.

    Args:
        run: What :func:`cacr.encoders.load_encoder` takes: a run folder, ``timm:NAME@FILE``, a checkpoint.
        data: A folder of images, or the name of a data set.
        images: A list of the images to use, or ``except:FILE``.
        labels: A CSV file with the columns ``path`` and ``label``; left out: the data's own labels.
        part: Which images, for data that has parts.
        data_root: Where named data sets lie.
        download: Allow downloads of data sets.
    """
    encoder = load_encoder(run, download=download)
    source = open_source(data, part=part, root=Path(data_root), download=download, images=images)
    return Opened(encoder, source, known_labels(source, None if labels is None else Path(labels)))
