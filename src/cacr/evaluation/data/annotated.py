"""Images with marked objects to learn from and to be judged on."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cacr.config import EvaluateSettings
from cacr.data import MissingPartError, Part, Problem, open_source, prepare
from cacr.data.annotated import AnnotatedSource, note_on_left_out
from cacr.data.source import Indices
from cacr.decode import upright_size
from cacr.errors import UnreadableImageError, UserError
from cacr.evaluation.data.splits import HELD_OUT
from cacr.files import printable
from cacr.randomness import numpy_generator

_SHOWN = 5


@dataclass(frozen=True)
class AnnotatedData:
    """Training and test images in one numbering of the classes.

    Attributes:
        train: Images with at least one object each.
        test: Images, some perhaps without objects.
        split: Where the test images come from, in words.
        problems: Images that were left out because they cannot be used.
        skipped: Annotations that were left out.
        held_out: Whether the test images are a part of the data that the seed drew.
        empty: Training images that show nothing, and are not used.
    """

    train: AnnotatedSource
    test: AnnotatedSource
    split: str
    problems: tuple[Problem, ...] = ()
    skipped: tuple[str, ...] = ()
    held_out: bool = False
    empty: int = 0

    @property
    def categories(self) -> tuple[str, ...]:
        """Names of the classes."""
        return self.train.categories

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.categories)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Nothing is taken for labels: annotations say what they are."""
        return ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about how the data was read, each note once."""
        notes = [*self.train.notes, *self.test.notes]
        if self.problems:
            notes.append(note_on_left_out("images", [str(problem) for problem in self.problems]))
        if self.empty:
            notes.append(f"{self.empty:,} training images without objects are not trained on")
        return tuple(dict.fromkeys(notes))


def open_annotated(settings: EvaluateSettings, *, masks: bool) -> AnnotatedData:
    """Open the data of an evaluation that needs boxes.

    Test images are those of ``test_data``, else the test part of ``data``, else a fifth of ``data`` that the seed
    draws.

    Args:
        settings: Names the data.
        masks: Whether every object needs a mask; objects without one are left out then.

    Raises:
        UserError: the data has no objects, no masks, or too much of it cannot be used.
    """
    problems: list[Problem] = []
    train = _open(settings, settings.data, "train", masks, problems)
    held_out, split = False, f"the test part of {settings.data}"
    try:
        if settings.test_data is not None:
            split = f"the images of {settings.test_data}"
            test = _open_test(settings, settings.test_data, masks, problems)
        else:
            test = _open(settings, settings.data, "test", masks, problems)
    except MissingPartError:
        split = f"a fifth of the images of {settings.data}, held out with seed {settings.seed}"
        first, second = _divided(train, settings.seed)
        train, test, held_out = train.subset(first), train.subset(second), True
    test = test.numbered_as(train.categories)
    shows = np.array([(~each.crowd).any() for each in train.objects])
    if not shows.any():
        raise UserError(f"no training image of {settings.data} shows an object: there is nothing to learn")
    if not any((~(each.crowd | each.difficult)).any() for each in test.objects):
        raise UserError(f"no test image ({split}) shows an object: there is nothing to be judged on")
    skipped = tuple(dict.fromkeys((*train.skipped, *test.skipped)))
    return AnnotatedData(
        train.subset(np.flatnonzero(shows)),
        test,
        split,
        tuple(dict.fromkeys(problems)),
        skipped,
        held_out,
        int((~shows).sum()),
    )


def _divided(source: AnnotatedSource, seed: int) -> tuple[Indices, Indices]:
    """The numbers of training and of test images: a fifth of those with and of those without objects."""
    if len(source) < 2:
        raise UserError(
            f"{source.name} has one image: nothing of it can be held out to judge on; give --test-data"
        )
    draw = numpy_generator("detection-split", seed)
    shows = np.array([len(each) > 0 for each in source.objects])
    test: list[int] = []
    for kind in (shows, ~shows):
        images = draw.permutation(np.flatnonzero(kind))
        test += images[: round(HELD_OUT * len(images))].tolist()
    if not test:
        test = draw.permutation(np.flatnonzero(shows) if shows.any() else len(source))[:1].tolist()
    chosen = np.sort(np.array(test, dtype=np.int64))
    return np.setdiff1d(np.arange(len(source)), chosen), chosen


def _open_test(
    settings: EvaluateSettings, spec: str, masks: bool, problems: list[Problem]
) -> AnnotatedSource:
    """The test part of data given for testing, or all of it where it has no parts."""
    try:
        return _open(settings, spec, "test", masks, problems)
    except MissingPartError:
        return _open(settings, spec, "train", masks, problems)


def _open(
    settings: EvaluateSettings, spec: str, part: Part, masks: bool, problems: list[Problem]
) -> AnnotatedSource:
    """One part without what cannot be used; unusable images are added to ``problems``."""
    source = open_source(spec, part=part, root=settings.data_root, download=settings.download)
    if not isinstance(source, AnnotatedSource):
        raise UserError(
            f"{spec} has no boxes, which detection and segmentation need: give coco:PATH or voc:PATH"
        )
    if len(source.skipped) > settings.max_unreadable * source.marked:
        examples = "\n".join(f"  {printable(text)}" for text in source.skipped[:_SHOWN])
        raise UserError(
            f"{len(source.skipped):,} of {source.marked:,} annotations of {spec} are wrong, and at most "
            f"{settings.max_unreadable:.0%} may be; for example\n{examples}\n"
            "Fix or remove them, or allow more with --set max_unreadable=SHARE."
        )
    if not source.marked:
        raise UserError(f"{spec} marks no object in its {len(source):,} images")
    found = prepare(source, max_unreadable=settings.max_unreadable).problems
    source = source.subset(np.setdiff1d(np.arange(len(source)), [problem.index for problem in found]))
    wrong = [problem for index in range(len(source)) if (problem := _other_size(source, index)) is not None]
    if len(wrong) > settings.max_unreadable * len(source):
        raise UserError(
            f"{len(wrong):,} of {len(source):,} images of {spec} have another size than their annotations say, for "
            f"example {wrong[0]}"
        )
    problems += [*found, *wrong]
    source = source.subset(np.setdiff1d(np.arange(len(source)), [problem.index for problem in wrong]))
    return _with_masks(source, spec) if masks else source


def _other_size(source: AnnotatedSource, index: int) -> Problem | None:
    """What is wrong with an image that is not of the size that was annotated."""
    objects, where = source.objects[index], printable(source.describe(index))
    try:
        width, height = upright_size(source.paths[index], where)
    except UnreadableImageError as error:
        return Problem(index, where, error.reason)
    if (width, height) == (objects.width, objects.height):
        return None
    return Problem(
        index, where, f"{width} x {height} pixels, but annotated as {objects.width} x {objects.height}"
    )


def _with_masks(source: AnnotatedSource, spec: str) -> AnnotatedSource:
    """The same images with the objects that have a mask."""
    has: list[NDArray[np.bool_]] = [
        np.array([mask is not None for mask in each.masks], dtype=bool) for each in source.objects
    ]
    without = int(sum((~each).sum() for each in has))
    if without == sum(len(each) for each in has):
        raise UserError(
            f"{spec} has boxes, but no masks, which segmentation needs: use --protocol detection, or masks in COCO's "
            "format (coco:PATH)"
        )
    if not without:
        return source
    kept = source.with_notes(f"{without:,} objects of {spec} without a mask are left out")
    kept.objects = tuple(each.only(chosen) for each, chosen in zip(source.objects, has, strict=True))
    return kept
