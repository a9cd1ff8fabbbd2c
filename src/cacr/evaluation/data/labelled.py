"""Labelled images to train and test classifiers on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cacr.config import EvaluateSettings
from cacr.data import MissingPartError, Part, Problem, Source, open_source, prepare
from cacr.data.annotated import AnnotatedSource
from cacr.data.named_images import labelled_images
from cacr.data.source import Assumption
from cacr.errors import UserError
from cacr.evaluation.data.multilabel import merge_copies
from cacr.evaluation.data.sets import known_set
from cacr.evaluation.data.splits import HELD_OUT, Labels, stratified_split
from cacr.evaluation.results.metrics import SEVERAL_CLASSES

Targets = NDArray[np.float32]


@dataclass(frozen=True)
class LabelledData:
    """Training and test images with the same class numbers.

    Attributes:
        train: Images with labels.
        test: Images with labels.
        split: Description of where the test images come from.
        classes: Number of classes; 0 without labels, where every image has the label 0.
        problems: Images that are left out because they are unreadable.
        metric: Metric of protocols that do not have their own; a name in ``METRICS``.
        several: Labels (n, classes) of zeros and ones of training and test images, if an image may show several
            classes.
        held_out: Whether the test images are a part of the data chosen by the seed.
    """

    train: Source
    test: Source
    split: str
    classes: int
    problems: tuple[Problem, ...] = ()
    metric: str = "accuracy"
    several: tuple[Targets, Targets] | None = None
    held_out: bool = False

    @property
    def train_labels(self) -> NDArray[np.generic]:
        """(n,) classes, or (n, classes) of zeros and ones."""
        return labels_of(self.train) if self.several is None else self.several[0]

    @property
    def test_labels(self) -> NDArray[np.generic]:
        """(n,) classes, or (n, classes) of zeros and ones."""
        return labels_of(self.test) if self.several is None else self.several[1]

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user on how the images were read, without repetitions."""
        return tuple(note for note in self._all_notes if not isinstance(note, Assumption))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Assumptions about labels, without repetitions."""
        return tuple(str(note) for note in self._all_notes if isinstance(note, Assumption))

    @property
    def _all_notes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.train.notes + self.test.notes))


def open_known(settings: EvaluateSettings, *, labels: bool = True, need_test: bool = False) -> LabelledData:
    """Open the data of an evaluation: with labels, or without if none of its protocols needs them.

    Args:
        settings: Names the data.
        labels: Whether labels are needed.
        need_test: Refuse data without a test part, instead of holding out a fifth.
    """
    if not labels and settings.labels is None:
        source = open_source(
            settings.data,
            part="train",
            root=settings.data_root,
            download=settings.download,
            images=settings.images,
        )
        if labelled_images(source, None).labels is None:
            return _without_labels(settings, source)
    return open_labelled(settings, need_test=need_test)


def _without_labels(settings: EvaluateSettings, source: Source) -> LabelledData:
    """Images without classes; a fifth, chosen by the seed, is used for testing."""
    prepared = prepare(source, max_unreadable=settings.max_unreadable)
    count = len(prepared.source)
    first, second = stratified_split(np.zeros(count, dtype=np.int64), HELD_OUT, settings.seed)
    if not len(second):
        raise UserError(f"{settings.data} has only one image, so none can be held out for testing")
    train, test = (
        prepared.source.subset(part).labelled(np.zeros(len(part), dtype=np.int64), ("",))
        for part in (first, second)
    )
    split = f"a fifth of {settings.data}, held out with seed {settings.seed}"
    return LabelledData(train, test, split, 0, prepared.problems, held_out=True)


def open_labelled(settings: EvaluateSettings, *, need_test: bool = False) -> LabelledData:
    """Open labelled data.

    Test images are those of ``test_data``, else the test part of ``data``, else (or with ``held_out``) a stratified
    fifth of ``data`` chosen by the seed.

    Args:
        settings: Names the data.
        need_test: Refuse data without a test part, instead of holding out a fifth.

    Raises:
        UserError: the data does not exist, has no labels, or nothing of it can be held out.
    """
    metric = metric_of(settings)
    several = metric in SEVERAL_CLASSES
    if settings.held_out and (settings.test_data is not None or need_test or several):
        raise UserError("held_out tests on images of data: leave out test_data, or held_out")
    train = _open(settings, settings.data, "train", several)
    test = None if settings.held_out else _test_part(settings, several, need_test)
    held_out, problems = test is None, train.problems
    if test is None:
        train, test = _hold_out(train, settings)
        split = f"a fifth of each class of {settings.data}, held out with seed {settings.seed}"
    else:
        problems += test.problems
        part = "test part" if settings.test_data is None else "images"
        split = f"the {part} of {settings.test_data or settings.data}"
    train, test = _numbered_alike(train, test)
    classes = len(train.source.class_names or ())
    known = known_set(settings.data)
    if known is not None and (different := known.difference(classes, len(train.source), len(test.source))):
        train = replace(train, source=train.source.with_notes(different))
    targets = None
    if train.targets is not None and test.targets is not None:
        targets = train.targets, test.targets
    return LabelledData(train.source, test.source, split, classes, problems, metric, targets, held_out)


def _test_part(settings: EvaluateSettings, several: bool, need_test: bool) -> "_Opened | None":
    """The images of ``test_data``, else the test part of ``data``; None if there is none and it is not needed."""
    try:
        if settings.test_data is not None:
            return _open_test(settings, settings.test_data, several)
        return _open(settings, settings.data, "test", several)
    except MissingPartError:
        if need_test or several:
            raise
        return None


def _hold_out(whole: "_Opened", settings: EvaluateSettings) -> "tuple[_Opened, _Opened]":
    """Hold out a fifth of each class for testing, chosen by the seed; returns the rest first."""
    first, second = stratified_split(labels_of(whole.source), HELD_OUT, settings.seed)
    if not len(second):
        raise UserError(
            f"no image of {settings.data} can be held out for testing, because no class has more than one image: "
            "give test_data, or at least two images per class"
        )
    rest, judged = (replace(whole, source=whole.source.subset(part)) for part in (first, second))
    return rest, judged


def metric_of(settings: EvaluateSettings) -> str:
    """The given metric, else the metric of the data set with this name, else accuracy."""
    if settings.metric != "auto":
        return settings.metric
    known = known_set(settings.data)
    return "accuracy" if known is None else known.metric


def labels_of(source: Source) -> Labels:
    """The labels of a source; refuse a source without labels."""
    if isinstance(source, AnnotatedSource):
        raise UserError(
            f"{source.name} has boxes around objects, but no labels of whole images: use --protocol detection, or "
            "segmentation"
        )
    if source.labels is None:
        has = "captions, but no labels" if source.captions is not None else "no labels"
        raise UserError(
            "; ".join(
                [
                    f"{source.name} has {has}, which evaluation needs: give a folder with one sub-folder per class (at "
                    "least two classes), --labels FILE.csv, or a data set with labels",
                    *source.notes,
                ]
            )
        )
    labels: Labels = np.asarray(source.labels, dtype=np.int64)
    return labels


@dataclass(frozen=True)
class _Opened:
    """Images with labels, and with several labels per image if they may have them."""

    source: Source
    problems: tuple[Problem, ...]
    targets: Targets | None = None

    def renumbered(self, class_names: Sequence[str]) -> "_Opened":
        """The same images, with the class numbers of another part."""
        source = self.source.renumbered(class_names)
        if self.targets is None:
            return replace(self, source=source)
        targets = np.zeros((len(self.targets), len(class_names)), dtype=np.float32)
        targets[:, [class_names.index(name) for name in self.source.class_names or ()]] = self.targets
        return replace(self, source=source, targets=targets)


def _numbered_alike(train: _Opened, test: _Opened) -> tuple[_Opened, _Opened]:
    """Give both parts the class numbers of the training images; classes are matched by name.

    Test classes that have only numbers use the numbers of the training classes.

    Raises:
        UserError: there are test images of a class without training images.
    """
    names = train.source.class_names
    if names is None:
        train = replace(train, source=train.source.named())
        test = replace(test, source=test.source.named())
        names = train.source.class_names or ()
    elif test.source.class_names is None:
        largest = int(labels_of(test.source).max())
        if largest >= len(names):
            raise UserError(
                f"{test.source.name} has a label {largest}, but the classes of {train.source.name} are "
                f"0 to {len(names) - 1}"
            )
        return train, test
    return (train, test) if test.source.class_names == names else (train, test.renumbered(names))


def _open(settings: EvaluateSettings, spec: str, part: Part, several: bool) -> _Opened:
    source = open_source(
        spec,
        part=part,
        root=settings.data_root,
        download=settings.download,
        images=settings.images if part == "train" and spec == settings.data else None,
    )
    source = labelled_images(source, settings.labels)
    labels_of(source)  # fails before every file is checked
    targets = None
    if several:
        source, targets = merge_copies(source)
    prepared = prepare(source, max_unreadable=settings.max_unreadable)
    if targets is not None:
        targets = np.delete(targets, [problem.index for problem in prepared.problems], axis=0)
    return _Opened(prepared.source, prepared.problems, targets)


def _open_test(settings: EvaluateSettings, spec: str, several: bool) -> _Opened:
    """The test part of ``test_data``, or all of it if it has no parts."""
    try:
        return _open(settings, spec, "test", several)
    except MissingPartError:
        return _open(settings, spec, "train", several)
