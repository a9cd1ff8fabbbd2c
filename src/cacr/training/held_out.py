"""Images that a run is measured on while it trains: seen by the diagnostics, not by the loss."""

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
"""Images that are measured: a thirty-second of the training images, but between these where there are so many."""

SHARE = 1 / 20
"""Of the images is held out where there is no test part, and at most as many as are measured."""

TOO_FEW = 64
"""Fewer held-out images than this say little: then nothing is taken away and training images are measured."""


MEASURED_AT_ONCE = 64
"""Images of a measurement in one forward pass."""

KEPT_BYTES = 2**29
"""Of crops of measured images that are kept in memory, over all processes."""


@dataclass(frozen=True)
class HeldOut:
    """What is trained on, and what is measured on.

    Attributes:
        training: the images to train on.
        source: the images to measure on.
        origin: ``test``: of the data's own test part. ``split``: of the data, and not trained on.
            ``training``: images that are trained on too, because there are too few to take any away.
        indices: their numbers, in the test part or in all images that could be trained on.
        taken: numbers of all images that are not trained on; ``indices`` are among them.
    """

    training: Source
    source: Source
    origin: Origin
    indices: list[int]
    taken: list[int]

    @property
    def note(self) -> str:
        """What the user should know."""
        count = f"{len(self.source):,}"
        match self.origin:
            case "test":
                return f"diagnostics are measured on {count} images of the test part"
            case "split":
                which = "the last ones" if isinstance(self.training, StreamSource) else "drawn by the seed"
                return (
                    f"{len(self.taken):,} images ({which}) are held out and not trained on; "
                    f"diagnostics are measured on {count} of them (--set held_out=0 trains on all)"
                )
            case "training":
                return (
                    f"diagnostics are measured on {count} of the training images: "
                    "there is no test part, and nothing is held out"
                )

    def record(self, run: RunFolder) -> None:
        """Store which images they are."""
        division = Division(origin=self.origin, images=self.indices, not_trained_on=self.taken)
        write_division(run.held_out, division)


def hold_out(source: Source, settings: PretrainSettings, resumed: RunFolder | None = None) -> HeldOut:
    """Divide the images; a resumed run keeps the division that it began with.

    Args:
        source: all images that may be trained on.
        settings: ``held_out``, ``measured_images`` and ``seed`` decide, with the data.
        resumed: the run to continue, where the division is stored.
    """
    if resumed is not None:
        return _stored(source, settings, resumed)
    asked = settings.held_out
    if (asked == "auto" or asked == 0) and (test := _test_part(settings)):
        chosen = _draw(test, _wanted(len(source), len(test), settings), settings.seed)
        return _measured_on_test(source, test, chosen)
    count = min(_usual(len(source)), int(SHARE * len(source))) if asked == "auto" else asked
    if asked == "auto" and count < TOO_FEW:
        count = 0
    if count:
        if count > len(source) - 2:
            raise UserError(
                f"held_out={count} leaves nothing to train on: {source.name} has {len(source)} images"
            )
        taken = _draw(source, count, settings.seed)
        return _split(source, taken, taken[-_wanted(len(source), count, settings) :])
    return _measured_on_training(source, settings)


def _stored(source: Source, settings: PretrainSettings, run: RunFolder) -> HeldOut:
    """The division in the run folder; a run from before there were any trains on everything."""
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
            f"{run.held_out} names images that {settings.data} does not have: a run can be resumed on the same "
            f"data only; start another, with {shell_words('--init', run.path)} to keep what was learned"
        )
    if origin == "test":
        return _measured_on_test(source, pool, chosen)
    return _split(source, taken, chosen) if origin == "split" else _measured_on_training(source, settings)


def _usual(images: int) -> int:
    """How many images are measured beside ``images`` to train on, where nothing else is asked for."""
    return min(images, MOST, max(LEAST, images // 32))


def _wanted(images: int, there: int, settings: PretrainSettings) -> int:
    """How many are measured of so many that are there."""
    asked = settings.measured_images
    return there if asked == "all" else min(there, asked or _usual(images))


def _measured_on_training(source: Source, settings: PretrainSettings) -> HeldOut:
    chosen = _draw(source, _wanted(len(source), len(source), settings), settings.seed)
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
    """The images that the data itself sets apart, if it does so and they are here."""
    try:
        test = open_source(settings.data, part="test", root=settings.data_root, download=settings.download)
    except UserError:
        return None
    return test if len(test) >= 2 else None


def _draw(source: Source, count: int, seed: int) -> Indices:
    """Ascending numbers of images that the seed draws; a stream is too costly to jump about in: its last ones."""
    if isinstance(source, StreamSource):
        return np.arange(len(source) - count, len(source))
    return np.sort(numpy_generator("held out", seed).permutation(len(source))[:count])
