"""Who is measured: an encoder, and the baselines beside it."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cacr.config import EvaluateSettings
from cacr.encoders import Encoder, load_encoder, locate
from cacr.encoders.files import WEIGHTS
from cacr.encoders.reader_file import weights_digest
from cacr.errors import UserError
from cacr.evaluation.baselines import BASELINES, Baseline, Origin
from cacr.evaluation.registry import ProtocolSettings
from cacr.files import require_writable
from cacr.reading.files import any_path, kind_of
from cacr.runs.folder import RunFolder
from cacr.runs.result import fingerprint
from cacr.runs.run import run_of


@dataclass(frozen=True)
class Contestant:
    """What is measured.

    Attributes:
        subject: ``encoder``, or the name of a baseline.
        encoder: Its weights at rest.
        folder: Where its results go.
        weights: Fingerprint of the run's weights, by which a result is known to be about them.
    """

    subject: str
    encoder: Encoder
    folder: Path
    weights: str


AUTO = ("auto",)
"""Baselines that are chosen by where the encoder comes from."""


def contestants(
    run: str | Path,
    settings: EvaluateSettings,
    *,
    quick: bool = False,
    beside: tuple[str, ...] = (),
    words: bool = False,
) -> list[Contestant]:
    """The encoder, then the baselines.

    Args:
        run: A run folder, or anything else that :func:`cacr.encoders.load_encoder` takes.
        settings: Names the baselines.
        quick: Whether baselines cost little, so that ``auto`` means some.
        beside: What ``auto`` means where they cost more.
        words: Whether the text side is asked: then of the baselines only ``start`` can answer.

    Raises:
        UserError: an encoder that cannot be loaded, an unknown baseline, or a folder that cannot be written.
    """
    asked = () if settings.baselines == AUTO else settings.baselines
    make_baselines = dict(_named_baseline(name, download=settings.download) for name in asked)
    # Readers are fitted alike for all contestants.
    encoder = load_encoder(run, with_reader=False, download=settings.download)
    if words:
        encoder.text  # noqa: B018  (before any image is encoded: who knows no words says so)
    origin = _origin(run, encoder)
    if settings.baselines == AUTO:
        chosen = origin.baselines if quick else (*beside, *origin.needed_baselines)
        if words:
            chosen = ("start",) if origin.start is not None else ()
        make_baselines = {name: BASELINES[name] for name in chosen}
    folder, file = evaluation_folder(run), locate(run).file
    weights = weights_digest(encoder) if file is None else fingerprint(file)
    require_writable(folder)
    models = {"encoder": encoder}
    models |= {name: make(origin, settings.seed) for name, make in make_baselines.items()}
    return [Contestant(subject, model, folder, weights) for subject, model in models.items()]


def _named_baseline(name: str, *, download: bool) -> tuple[str, Baseline]:
    """A baseline by its name, or any other encoder by what names it: what results call it, and how it is made."""
    encoder = name not in BASELINES and (":" in name or kind_of(any_path(name)) is not None)
    if not encoder:
        return name, BASELINES[name]
    subject = re.sub(r"[^\w.-]+", "_", locate(name).name)
    taken = subject in BASELINES or subject == "encoder"

    def made(origin: Origin, seed: int) -> Encoder:
        return load_encoder(name, with_reader=False, download=download)

    return f"other-{subject}" if taken else subject, made


def require_fit(subjects: Iterable[Contestant], chosen: Mapping[str, ProtocolSettings]) -> None:
    """Refuse contestants that a protocol cannot measure, before any image is read.

    Raises:
        UserError: names all of them.
    """
    wrong = [
        f"{protocol} cannot measure {each.subject}: {why}"
        for protocol, options in chosen.items()
        for each in subjects
        if (why := options.refusal(each.encoder))
    ]
    if wrong:
        raise UserError("\n".join(wrong))


def _origin(text: str | Path, encoder: Encoder) -> Origin:
    """Where an encoder comes from: the start of its run, where it has one."""
    place = locate(text)
    run = run_of(place.file) if place.kind == "stored" and place.file is not None else None
    if run is None or kind_of(run.folder.start / WEIGHTS) is None:
        return Origin(encoder.info)
    return Origin(encoder.info, run.folder.start, run.settings.init is None)


def evaluation_folder(run: str | Path) -> Path:
    """``evaluation/`` beside a run's encoder; a folder in it for weights of another name, which are others.

    Weights that lie in no file, as those of ``timm:NAME``, and those of an installed package or in a cache of
    downloads, which are not ours to write into, have a folder in ``evaluation/`` of the current one.
    """
    place = locate(run)
    if place.file is None or _is_installed(place.file):
        return RunFolder(Path()).evaluation / place.name
    folder = RunFolder(place.file.parent).evaluation
    return folder if place.kind == "hub" or place.file.name == WEIGHTS else folder / place.file.stem


def _is_installed(file: Path) -> bool:
    """Whether a file belongs to a package, or to the cache of a model hub."""
    parts = file.absolute().parts
    return any(part in ("site-packages", "dist-packages") or part.startswith("models--") for part in parts)


def encoder_name(run: str | Path) -> str:
    """What an encoder is called beside others."""
    return locate(run).name
