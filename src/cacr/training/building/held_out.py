"""Images for measurements during training: the diagnostics use them, the loss does not."""

from dataclasses import dataclass

import numpy as np

from cacr.config import PretrainSettings
from cacr.data import Source, StreamSource, open_source, prepare
from cacr.data.source import Indices
from cacr.errors import UserError
from cacr.randomness import numpy_generator
from cacr.runs.division import Division, Origin, write_division
from cacr.runs.folder import RunFolder
from cacr.runs.run import Run
from cacr.shell import shell_words

MOST, LEAST = 2048, 256
"""Measured images: a thirty-second of the number of training images, but at least and at most these numbers."""

SHARE = 1 / 20
"""Share of the images that is held out if there is no test part; never more than are measured."""

TOO_FEW = 64
"""With fewer held-out images measurements are unreliable: then none are held out, and training images are measured."""


MEASURED_AT_ONCE = 64
"""Images per forward pass of a measurement."""

KEPT_BYTES = 2**29
"""Bytes of crops of measured images that are kept in memory, over all processes."""


@dataclass(frozen=True)
class HeldOut:
    """The images to train on and the images to measure on.

    Attributes:
        training: the images to train on.
        source: the images to measure on.
        origin: ``test``: from the test part of the data. ``split``: from the data, and not trained on.
            ``training``: also trained on, because there are too few images to hold any out.
        indices: numbers of the measured images in their order, in the test part or in all images that could be trained
            on.
        taken: numbers of all images that are not trained on, including ``indices``.
    """

    training: Source
    source: Source
    origin: Origin
    indices: list[int]
    taken: list[int]

    @property
    def note(self) -> str:
        """A note for the user."""
        count = f"{len(self.source):,}"
        match self.origin:
            case "test":
                return f"diagnostics are measured on {count} images of the test part"
            case "split":
                which = "the last ones" if isinstance(self.training, StreamSource) else "drawn by the seed"
                return (
                    f"{len(self.taken):,} images ({which}) are held out from training; "
                    f"diagnostics are measured on {count} of them (--set held_out=0 trains on all)"
                )
            case "training":
                return (
                    f"diagnostics are measured on {count} of the training images: "
                    "there is no test part, and nothing is held out"
                )

    def record(self, run: RunFolder) -> None:
        """Store the numbers of the images."""
        division = Division(origin=self.origin, images=self.indices, not_trained_on=self.taken)
        write_division(run.held_out, division)


def hold_out(source: Source, settings: PretrainSettings, resumed: RunFolder | None = None) -> HeldOut:
    """Split the images; a resumed run keeps its split.

    Args:
        source: all images that may be trained on.
        settings: ``held_out``, ``measured_images`` and ``seed`` decide, together with the data.
        resumed: the run to continue, which has stored its split.
    """
    if resumed is not None:
        return _stored(source, settings, resumed)
    asked = settings.held_out
    if (asked == "auto" or asked == 0) and (test := _test_part(settings)):
        chosen = _draw(test, _number_to_measure(len(source), len(test), settings), settings.seed)
        return _measured_on_test(source, test, chosen)
    count = min(_default_count(len(source)), int(SHARE * len(source))) if asked == "auto" else asked
    if asked == "auto" and count < TOO_FEW:
        count = 0
    if count:
        if count > len(source) - 2:
            raise UserError(
                f"held_out={count} leaves no images to train on: {source.name} has {len(source)} images"
            )
        taken = _draw(source, count, settings.seed)
        return _split(source, taken, taken[-_number_to_measure(len(source), count, settings) :])
    return _measured_on_training(source, settings)


def _stored(source: Source, settings: PretrainSettings, run: RunFolder) -> HeldOut:
    """The split in the run folder; a run of an old version without a split trains on all images."""
    division = Run.open(run.path).division
    if division is None:
        return _measured_on_training(source, settings)
    origin = division.origin
    chosen, taken = (np.asarray(x, dtype=np.int64) for x in (division.images, division.not_trained_on))
    pool = _test_part(settings) if origin == "test" else source
    if pool is None:
        return _measured_on_training(source, settings)
    if chosen.max(initial=0) >= len(pool) or taken.max(initial=0) >= len(source):
        raise UserError(
            f"{run.held_out} names images that {settings.data} does not have: a run can only be resumed "
            f"on the same data; to start a new run from its weights, use {shell_words('--init', run.path)}"
        )
    if origin == "test":
        return _measured_on_test(source, pool, chosen)
    if origin == "split":
        return _split(source, taken, chosen)
    return HeldOut(source, source.subset(chosen), "training", chosen.tolist(), [])


def _default_count(images: int) -> int:
    """Default number of images to measure for ``images`` training images."""
    return min(images, MOST, max(LEAST, images // 32))


def _number_to_measure(images: int, there: int, settings: PretrainSettings) -> int:
    """Number of images to measure, of ``there`` available ones."""
    asked = settings.measured_images
    return there if asked == "all" else min(there, asked or _default_count(images))


def _measured_on_training(source: Source, settings: PretrainSettings) -> HeldOut:
    chosen = _draw(source, _number_to_measure(len(source), len(source), settings), settings.seed)
    return HeldOut(source, source.subset(chosen), "training", chosen.tolist(), [])


def _measured_on_test(source: Source, test: Source, chosen: Indices) -> HeldOut:
    readable = prepare(test.subset(chosen), max_unreadable=1.0).source
    return HeldOut(source, readable, "test", chosen.tolist(), [])


def _split(source: Source, taken: Indices, chosen: Indices) -> HeldOut:
    trained = np.ones(len(source), dtype=bool)
    trained[taken] = False
    kept = np.flatnonzero(trained)
    return HeldOut(source.subset(kept), source.subset(chosen), "split", chosen.tolist(), taken.tolist())


def _test_part(settings: PretrainSettings) -> Source | None:
    """The test part of the data, if it has one and the files exist."""
    try:
        test = open_source(settings.data, part="test", root=settings.data_root, download=settings.download)
    except UserError:
        return None
    return test if len(test) >= 2 else None


def _draw(source: Source, count: int, seed: int) -> Indices:
    """Numbers of images chosen by the seed; the last images of a stream, because random access is slow.

    They are not in order: folders of classes are, and entropies are measured in blocks of neighbouring images, which
    must be like batches of the training.
    """
    if isinstance(source, StreamSource):
        return np.arange(len(source) - count, len(source))
    return numpy_generator("held out", seed).permutation(len(source))[:count]
