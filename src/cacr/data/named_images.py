"""Find images of a source by name: for lists of images, and for their labels."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath

import numpy as np

from cacr.data.files import FileSource
from cacr.data.source import Assumption, Indices, Source
from cacr.errors import UserError
from cacr.files import printable, storable
from cacr.reading.files import kind_of, user_path
from cacr.reading.tables import read_names, read_table

PATHS = ("path", "name", "file", "filename", "file_name", "image", "image_path", "images", "id", "image_id")
"""Columns that may name the image."""

LABELS = ("label", "class", "class_name", "category", "target")
"""Columns that may name its class."""

EXCEPT = "except:"
"""Prefix of a list of images to leave out."""

OWN_LABELS = "labels.csv"
"""Labels file in a folder of images, used if no other labels are given."""

UNKNOWN = -1
"""The label of images without a label."""

_SHOWN = 5  # number of names in a message


class ImageNames:
    """Finds images of a source by name.

    A name is one of the following, in this order: the name that commands print; the path inside the data's folder;
    the end of a longer path (so a list also works on another machine); or a file name, with or without suffix, that
    occurs once. For data that is not a folder: ``cifar10[17]``, or only the number.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._number: dict[str, int] = {}
        self._by_file: dict[str, int] = {}
        if not isinstance(source, FileSource):
            for number in range(len(source)):
                self._number[str(number)] = self._number[storable(source.describe(number))] = number
            return
        count: Counter[str] = Counter()
        for number, path in enumerate(source.paths):
            inside = path.relative_to(source.root).as_posix()
            for name in (storable(str(path)), storable(inside)):
                self._number.setdefault(name, number)
            for name in {storable(path.name), storable(path.stem)}:
                count[name] += 1
                self._by_file[name] = number
        self._by_file = {name: n for name, n in self._by_file.items() if count[name] == 1}

    def find(self, name: str) -> int | None:
        """The number of the image; None if there is no image of this name, or several."""
        if (number := self._number.get(name)) is not None or not isinstance(self._source, FileSource):
            return number
        parts = PureWindowsPath(name).parts  # understands both kinds of slashes
        ends = ("/".join(parts[start:]) for start in range(len(parts)))
        known = (self._number[end] for end in ends if end in self._number)
        return next(known, self._by_file.get(parts[-1]) if parts else None)


@dataclass(frozen=True)
class KnownLabels:
    """Labels of some images of a source.

    Attributes:
        labels: (N,) class of each image, or :data:`UNKNOWN`.
        class_names: The name of each class.
        notes: Notes for the user: names without an image, images without a label.
    """

    labels: Indices
    class_names: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def where(self) -> Indices:
        """The numbers of the images that have a label, ascending."""
        return np.flatnonzero(self.labels != UNKNOWN)

    def name(self, index: int) -> str | None:
        """The class name of an image; None without a label."""
        label = int(self.labels[index])
        return None if label == UNKNOWN else self.class_names[label]

    def subset(self, indices: Indices) -> "KnownLabels":
        """The labels of these images, in this order."""
        return KnownLabels(self.labels[indices], self.class_names, self.notes)


def choose_images(source: Source, images: str | None) -> Source:
    """The images of a source that are in a list, in the order of the source.

    Args:
        source: The images.
        images: A ``.csv`` file with a column ``path``, or a ``.txt`` file with one name per line; ``except:FILE`` for
            all others; None for all.

    Raises:
        UserError: the file cannot be read, or no images are left.
    """
    if images is None:
        return source
    path = user_path(images.removeprefix(EXCEPT))
    asked = read_names(path, PATHS)
    names = ImageNames(source)
    numbers = [names.find(name) for name in asked]
    missing = [name for name, number in zip(asked, numbers, strict=True) if number is None]
    chosen = np.zeros(len(source), dtype=bool)
    chosen[[number for number in numbers if number is not None]] = True
    if not chosen.any():
        raise UserError(
            f"none of the {len(asked):,} names in {path} is an image of {source.name}{_shown(missing)}"
        )
    if images.startswith(EXCEPT):
        chosen = ~chosen
        if not chosen.any():
            raise UserError(f"{path} names every image of {source.name}: none is left")
    note = f"{chosen.sum():,} of {len(source):,} images of {source.name} are used (--images {images})"
    notes = [note, *([_without(missing, path, source)] if missing else [])]
    return source.subset(np.flatnonzero(chosen)).with_notes(*notes)


def absolute_list(images: str) -> str:
    """A list for :func:`choose_images`, with its absolute path."""
    prefix = EXCEPT if images.startswith(EXCEPT) else ""
    return prefix + str(user_path(images.removeprefix(EXCEPT)).resolve())


def known_labels(source: Source, file: Path | None) -> KnownLabels | None:
    """The labels of a source: from a given file, else its own, else from ``labels.csv`` in its folder.

    Args:
        source: The images.
        file: A CSV file with a column for the image (``path``) and one for its class (``label``).

    Returns:
        None without any labels.

    Raises:
        UserError: the file cannot be read, lacks a column, labels no image, or gives two labels to one image.
    """
    if file is not None:
        return read_labels(source, file)
    if source.labels is not None:
        named = source.named()
        assert named.labels is not None and named.class_names is not None  # guaranteed by `named`
        return KnownLabels(named.labels, named.class_names)
    if isinstance(source, FileSource) and kind_of(source.root / OWN_LABELS) == "file":
        own = source.root / OWN_LABELS
        try:
            found = read_labels(source, own)
        except UserError as error:  # the user did not ask for this file: continue without labels
            nothing = np.full(len(source), UNKNOWN, dtype=np.int64)
            return KnownLabels(nothing, (), (f"the labels in {own} are not used: {error}",))
        note = Assumption(f"labels are read from {own}")
        return KnownLabels(found.labels, found.class_names, (note, *found.notes))
    return None


def read_labels(source: Source, file: Path) -> KnownLabels:
    """The labels of images of a source, from a CSV file; see :func:`known_labels`."""
    table = read_table(file)
    image, label = table.find(PATHS, "the images"), table.find(LABELS, "the labels")
    names, missing, given = ImageNames(source), [], dict[int, str]()
    for row, line in zip(table.rows, table.lines, strict=True):
        name, text = row[image].strip(), row[label].strip()
        if not name or not text:
            continue
        number = names.find(name)
        if number is None:
            missing.append(name)
        elif given.setdefault(number, text) != text:
            raise UserError(
                f"{file}, line {line}: {printable(name)} is labelled {text!r} here, but {given[number]!r} before; "
                "an image can have only one label"
            )
    if not given:
        raise UserError(f"{file} labels no image of {source.name}{_shown(missing)}")
    classes = sorted(set(given.values()))
    labels = np.full(len(source), UNKNOWN, dtype=np.int64)
    number_of = {name: label for label, name in enumerate(classes)}
    labels[list(given)] = [number_of[text] for text in given.values()]
    notes = [_without(missing, file, source)] if missing else []
    if len(given) < len(source):
        notes.append(f"{len(given):,} of {len(source):,} images of {source.name} have a label")
    return KnownLabels(labels, tuple(classes), tuple(notes))


def labelled_images(source: Source, file: Path | None) -> Source:
    """The labelled images; the source itself if it has its own labels and no file is given.

    Raises:
        UserError: see :func:`known_labels`.
    """
    if file is None and source.labels is not None:
        return source
    known = known_labels(source, file)
    return source if known is None else _with(source, known)


def fully_labelled(source: Source, file: Path | None) -> Source:
    """The same images, with labels only if every image has one."""
    known = known_labels(source, file) if file is not None or source.labels is None else None
    if known is None:
        return source
    if not len(known.where) or len(known.where) == len(source):
        return _with(source, known)
    return source.with_notes(*known.notes, "not all images have labels, so labels are not used in training")


def _with(source: Source, known: KnownLabels) -> Source:
    where = known.where
    if not len(where):
        return source.with_notes(*known.notes)
    labelled = source.subset(where) if len(where) < len(source) else source
    return labelled.labelled(known.labels[where], known.class_names).with_notes(*known.notes)


def _shown(names: Sequence[str]) -> str:
    if not names:
        return ""
    listed = ", ".join(printable(name)[:100] for name in names[:_SHOWN])
    return f"; for example {listed}"


def _without(missing: Sequence[str], path: Path, source: Source) -> str:
    more = f" and {len(missing) - _SHOWN:,} more" if len(missing) > _SHOWN else ""
    listed = ", ".join(printable(name)[:100] for name in missing[:_SHOWN])
    return f"{path}: no image of {source.name} for {len(missing):,} of its names: {listed}{more}"
