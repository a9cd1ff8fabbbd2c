"""Labelled images to learn from and to be judged on."""

from dataclasses import dataclass

import numpy as np

from cacr.config import EvaluateSettings
from cacr.data import MissingPartError, Part, Problem, Source, open_source, prepare
from cacr.errors import UserError
from cacr.evaluation.splits import Labels, hold_out

HELD_OUT = 0.2


@dataclass(frozen=True)
class LabelledData:
    """Training and test images in one numbering of the classes.

    Attributes:
        train: Images with labels.
        test: Images with labels.
        split: Where the test images come from, in words.
        classes: Number of classes.
        problems: Images that were left out because they cannot be read.
    """

    train: Source
    test: Source
    split: str
    classes: int
    problems: tuple[Problem, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about how the images were read, each note once."""
        return tuple(dict.fromkeys(self.train.notes + self.test.notes))


def open_labelled(settings: EvaluateSettings) -> LabelledData:
    """Open the data of an evaluation.

    Test images are those of ``test_data``, else the test part of ``data``, else a stratified fifth of
    ``data`` that the seed draws.

    Raises:
        UserError: when there is no such data, it has no labels, or nothing of it can be held out.
    """
    train, problems = _open(settings, settings.data, "train")
    test, split = train, ""
    try:
        if settings.test_data is not None:
            test, more = _open_test(settings, settings.test_data)
            split = f"the images of {settings.test_data}"
        else:
            test, more = _open(settings, settings.data, "test")
            split = f"the test part of {settings.data}"
        problems += more
    except MissingPartError:
        first, second = hold_out(labels_of(train), HELD_OUT, settings.seed)
        if not len(second):
            raise UserError(
                f"nothing of {settings.data} can be held out to judge on: no class has more than one image; "
                "give test_data, or at least two images of a class"
            ) from None
        train, test = train.subset(first), train.subset(second)
        split = f"a fifth of each class of {settings.data}, held out with seed {settings.seed}"
    if train.class_names is not None and test.class_names not in (None, train.class_names):
        test = test.renumbered(train.class_names)
    classes = 1 + int(max(labels_of(train).max(), labels_of(test).max()))
    return LabelledData(train, test, split, max(classes, len(train.class_names or ())), tuple(problems))


def labels_of(source: Source) -> Labels:
    """The labels of a source that must have some."""
    if source.labels is None:
        raise UserError(
            f"{source.name} has no labels, which evaluation needs: give a folder that has a folder for each "
            "class, or a data set with labels"
        )
    labels: Labels = np.asarray(source.labels, dtype=np.int64)
    return labels


def _open(settings: EvaluateSettings, spec: str, part: Part) -> tuple[Source, list[Problem]]:
    source = open_source(spec, part=part, root=settings.data_root, download=settings.download)
    labels_of(source)  # before every file is looked at
    prepared = prepare(source)
    return prepared.source, list(prepared.problems)


def _open_test(settings: EvaluateSettings, spec: str) -> tuple[Source, list[Problem]]:
    """The test part of data given for testing, or all of it where it has no parts."""
    try:
        return _open(settings, spec, "test")
    except MissingPartError:
        return _open(settings, spec, "train")
