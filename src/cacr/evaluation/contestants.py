"""The encoder to measure, and its baselines."""

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
    """An encoder or baseline to measure.

    Attributes:
        subject: ``encoder``, or the name of a baseline.
        encoder: Its weights, in evaluation mode.
        folder: Folder of its results.
        weights: Fingerprint of the run's weights, which identifies the results that belong to them.
        notes: What a user should know of it.
    """

    subject: str
    encoder: Encoder
    folder: Path
    weights: str
    notes: tuple[str, ...] = ()


FRESH = (
    "untrained: new random weights, because those that the run started from are not stored with the encoder"
)
"""Note for an encoder of ours outside of its run folder."""

AUTO = ("auto",)
"""Baselines that depend on where the encoder comes from."""


def contestants(
    run: str | Path,
    settings: EvaluateSettings,
    *,
    quick: bool = False,
    defaults: tuple[str, ...] = (),
    words: bool = False,
) -> list[Contestant]:
    """The encoder, followed by the baselines.

    Args:
        run: A run folder, or anything else that :func:`cacr.encoders.load_encoder` takes.
        settings: Names the baselines.
        quick: Whether baselines take seconds, so that ``auto`` means all available ones.
        defaults: What ``auto`` means if they take longer.
        words: Whether the text encoder is used: then ``start`` is the only possible baseline.

    Raises:
        UserError: an encoder cannot be loaded, a baseline is unknown, or a folder cannot be written.
    """
    asked = () if settings.baselines == AUTO else settings.baselines
    make_baselines = dict(_named_baseline(name, download=settings.download) for name in asked)
    # Readers are fitted in the same way for all.
    encoder = load_encoder(run, with_reader=False, download=settings.download)
    if words:
        encoder.text  # noqa: B018  (raises an error before any image is encoded, if there is no text encoder)
    origin = _origin(run, encoder)
    if settings.baselines == AUTO:
        chosen = origin.baselines if quick else (*defaults, *origin.needed_baselines)
        if words:
            chosen = ("start",) if origin.start is not None else ()
        make_baselines = {name: BASELINES[name] for name in chosen}
    folder, file = evaluation_folder(run), locate(run).file
    weights = weights_digest(encoder) if file is None else fingerprint(file)
    require_writable(folder)
    models = {"encoder": encoder}
    models |= {name: make(origin, settings.seed) for name, make in make_baselines.items()}
    fresh = (FRESH,) if origin.start is None and encoder.info.training else ()
    return [
        Contestant(subject, model, folder, weights, fresh if subject == "untrained" else ())
        for subject, model in models.items()
    ]


def _named_baseline(name: str, *, download: bool) -> tuple[str, Baseline]:
    """A baseline by name, or any other encoder: its name in results, and the function that makes it."""
    encoder = name not in BASELINES and (":" in name or kind_of(any_path(name)) is not None)
    if not encoder:
        return name, BASELINES[name]
    subject = re.sub(r"[^\w.-]+", "_", locate(name).name)
    taken = subject in BASELINES or subject == "encoder"

    def made(origin: Origin, seed: int) -> Encoder:
        return load_encoder(name, with_reader=False, download=download)

    return f"other-{subject}" if taken else subject, made


def require_fit(encoders: Iterable[tuple[str, Encoder]], chosen: Mapping[str, ProtocolSettings]) -> None:
    """Refuse encoders, each with its subject, that a protocol cannot measure, before any image is read.

    Raises:
        UserError: names all of them.
    """
    wrong = [
        f"{protocol} cannot measure {subject}: {why}"
        for subject, encoder in encoders
        for protocol, options in chosen.items()
        if (why := options.refusal(encoder))
    ]
    if wrong:
        raise UserError("\n".join(wrong))


def _origin(text: str | Path, encoder: Encoder) -> Origin:
    """Where an encoder comes from: the initial weights of its run, if it has one."""
    place = locate(text)
    run = run_of(place.file) if place.kind == "stored" and place.file is not None else None
    if run is None or kind_of(run.folder.start / WEIGHTS) is None:
        return Origin(encoder.info)
    return Origin(encoder.info, run.folder.start, run.settings.init is None)


def evaluation_folder(run: str | Path) -> Path:
    """The folder of the results: ``evaluation/`` next to a run's encoder; a sub-folder of it for other weight files.

    Weights without a file (``timm:NAME``), and weights in an installed package or a download cache, have a folder in
    ``evaluation/`` of the current folder, because cacr should not write there.
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
    """The name of an encoder in comparisons."""
    return locate(run).name
