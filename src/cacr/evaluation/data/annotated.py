"""Images with annotated objects to train and test detectors on."""

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
    """Training and test images with the same class numbers.

    Attributes:
        train: Images with at least one object each.
        test: Images, some possibly without objects.
        split: Description of where the test images come from.
        problems: Images that are left out because they are unusable.
        skipped: Annotations that are left out.
        held_out: Whether the test images are a part of the data chosen by the seed.
        empty: Number of training images without objects, which are not used.
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
        """Empty: annotations need no assumptions about labels."""
        return ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user on how the data was read, without repetitions."""
        notes = [*self.train.notes, *self.test.notes]
        if self.problems:
            notes.append(note_on_left_out("images", [str(problem) for problem in self.problems]))
        if self.empty:
            notes.append(f"{self.empty:,} training images without objects are not trained on")
        return tuple(dict.fromkeys(notes))


def open_annotated(settings: EvaluateSettings, *, masks: bool) -> AnnotatedData:
    """Open the data of an evaluation that needs boxes.

    Test images are those of ``test_data``, else the test part of ``data``, else a fifth of ``data`` chosen by the
    seed.

    Args:
        settings: Names the data.
        masks: Whether every object needs a mask; objects without one are then left out.

    Raises:
        UserError: the data has no objects, no masks, or too much of it is unusable.
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
        raise UserError(f"no training image of {settings.data} shows an object, so nothing can be learned")
    if not any((~(each.crowd | each.difficult)).any() for each in test.objects):
        raise UserError(f"no test image ({split}) shows an object, so nothing can be tested")
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
    """Numbers of training and test images: a fifth of the images with objects and of those without are test images."""
    if len(source) < 2:
        raise UserError(
            f"{source.name} has only one image, so none can be held out for testing: give --test-data"
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
    """The test part of ``test_data``, or all of it if it has no parts."""
    try:
        return _open(settings, spec, "test", masks, problems)
    except MissingPartError:
        return _open(settings, spec, "train", masks, problems)


def _open(
    settings: EvaluateSettings, spec: str, part: Part, masks: bool, problems: list[Problem]
) -> AnnotatedSource:
    """One part without unusable images, which are added to ``problems``."""
    source = open_source(spec, part=part, root=settings.data_root, download=settings.download)
    if not isinstance(source, AnnotatedSource):
        raise UserError(
            f"detection and segmentation need boxes, and {spec} has none: give coco:PATH or voc:PATH"
        )
    if len(source.skipped) > settings.max_unreadable * source.marked:
        examples = "\n".join(f"  {printable(text)}" for text in source.skipped[:_SHOWN])
        raise UserError(
            f"{len(source.skipped):,} of {source.marked:,} annotations of {spec} are wrong, more than the "
            f"limit of {settings.max_unreadable:.0%}; for example\n{examples}\n"
            "Fix or remove them, or raise the limit with --set max_unreadable=SHARE."
        )
    if not source.marked:
        raise UserError(f"{spec} has no annotated object in its {len(source):,} images")
    found = prepare(source, max_unreadable=settings.max_unreadable).problems
    source = source.subset(np.setdiff1d(np.arange(len(source)), [problem.index for problem in found]))
    wrong = [problem for index in range(len(source)) if (problem := _other_size(source, index)) is not None]
    if len(wrong) > settings.max_unreadable * len(source):
        raise UserError(
            f"{len(wrong):,} of {len(source):,} images of {spec} do not have the size in their annotations, for "
            f"example {wrong[0]}"
        )
    problems += [*found, *wrong]
    source = source.subset(np.setdiff1d(np.arange(len(source)), [problem.index for problem in wrong]))
    return _with_masks(source, spec) if masks else source


def _other_size(source: AnnotatedSource, index: int) -> Problem | None:
    """The problem of an image that does not have its annotated size."""
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
    """The same images, with only the objects that have a mask."""
    has: list[NDArray[np.bool_]] = [
        np.array([mask is not None for mask in each.masks], dtype=bool) for each in source.objects
    ]
    without = int(sum((~each).sum() for each in has))
    if without == sum(len(each) for each in has):
        raise UserError(
            f"segmentation needs masks, and {spec} has only boxes: use --protocol detection, or masks in COCO's "
            "format (coco:PATH)"
        )
    if not without:
        return source
    kept = source.with_notes(f"{without:,} objects of {spec} without a mask are left out")
    kept.objects = tuple(each.only(chosen) for each, chosen in zip(source.objects, has, strict=True))
    return kept
