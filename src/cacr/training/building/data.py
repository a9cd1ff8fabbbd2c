"""The images of a run: open them, drop unreadable ones, apply the imbalance rule, split and describe them."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from cacr.config import PretrainSettings
from cacr.data import Problem, Source, imbalanced, open_source, prepare
from cacr.data.named_images import fully_labelled
from cacr.files import write_atomically
from cacr.runs.division import write_kept
from cacr.runs.folder import RunFolder
from cacr.training.building.captions import with_captions
from cacr.training.building.held_out import HeldOut, hold_out
from cacr.training.settings.described import Described, describe


@dataclass(frozen=True)
class TrainingData:
    """The images to train on and to measure on.

    Attributes:
        held_out: images to train on and images to measure on.
        problems: images that are left out because they are unreadable.
        kept: numbers of the images that an imbalance rule kept; None without a rule.
        opening: seconds that the preparation took.
    """

    held_out: HeldOut
    problems: tuple[Problem, ...] = ()
    kept: list[int] | None = None
    opening: float = 0.0

    @property
    def training(self) -> Source:
        """The images to train on."""
        return self.held_out.training

    @property
    def measured(self) -> Source:
        """The images to measure on."""
        return self.held_out.source

    @cached_property
    def described(self) -> Described:
        """The properties of the images that settings depend on; opens a few image files."""
        return describe(self.training, held_out=len(self.held_out.taken), measured=len(self.measured))

    def record(self, run: RunFolder, found_later: Iterable[Problem] = ()) -> None:
        """Store which images were left out, kept and held out, and which were found unreadable later."""
        problems = [*self.problems, *found_later]
        if problems:
            lines = "".join(f"{problem}\n" for problem in problems)
            write_atomically(run.unreadable, lines.encode(errors="surrogateescape"))
        if self.kept is not None:
            write_kept(run.indices, self.kept)
        self.held_out.record(run)

    def notes(self, run: RunFolder, *, observed: bool) -> list[str]:
        """Notes on the images for the user."""
        left_out = f"images left out, because they cannot be read: {len(self.problems):,} (listed in {run.unreadable})"
        notes = [*self.training.notes, *([left_out] if self.problems else [])]
        return [*notes, self.held_out.note] if observed or self.held_out.taken else notes


def prepare_data(settings: PretrainSettings, resumed: RunFolder | None = None) -> TrainingData:
    """Open the images of a run and check every file.

    Args:
        settings: decide which images.
        resumed: the run to continue; its split is used again.
    """
    started = time.monotonic()
    prepared = prepare(_open(settings), max_unreadable=settings.max_unreadable)
    divided = _divided(prepared.source, settings, prepared.problems, resumed)
    return replace(divided, opening=time.monotonic() - started)


def describe_images(settings: PretrainSettings) -> Described:
    """Describe the training images of a new run, as if every file is readable."""
    return _divided(_open(settings), settings).described


def _open(settings: PretrainSettings) -> Source:
    source = open_source(
        settings.data,
        part="pretrain",
        root=settings.data_root,
        download=settings.download,
        images=settings.images,
    )
    return with_captions(fully_labelled(source, settings.labels), settings)


def _divided(
    source: Source,
    settings: PretrainSettings,
    problems: tuple[Problem, ...] = (),
    resumed: RunFolder | None = None,
) -> TrainingData:
    """Apply the imbalance rule, then split the images into those to train on and those to measure on."""
    kept = None
    if settings.imbalance != "none":
        source, indices = imbalanced(source, settings.imbalance, settings.imbalance_seed)
        kept = indices.tolist()
    return TrainingData(hold_out(source, settings, resumed), problems, kept)
