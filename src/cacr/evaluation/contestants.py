"""Who is measured: the encoder of a run, and the baselines beside it."""

from dataclasses import dataclass
from pathlib import Path

from cacr.config import EvaluateSettings
from cacr.encoders import Encoder, load_encoder
from cacr.encoders.files import WEIGHTS, weights_file
from cacr.evaluation.baselines import BASELINES, Origin
from cacr.files import require_writable
from cacr.reading.files import kind_of
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


def contestants(run: str | Path, settings: EvaluateSettings, *, quick: bool = False) -> list[Contestant]:
    """The encoder of a run, then the baselines.

    Args:
        run: A run folder, or a weights file.
        settings: Names the baselines.
        quick: Whether baselines cost little, so that ``auto`` means some.

    Raises:
        UserError: an encoder that cannot be loaded, an unknown baseline, or a folder that cannot be written.
    """
    asked = () if settings.baselines == AUTO else settings.baselines
    make_baselines = {name: BASELINES[name] for name in asked}
    encoder = load_encoder(run, with_reader=False)  # readers are fitted alike for all contestants
    origin = _origin(Path(run), encoder)
    if settings.baselines == AUTO and quick:
        make_baselines = {name: BASELINES[name] for name in origin.baselines}
    folder, weights = evaluation_folder(run), fingerprint(weights_file(Path(run)))
    require_writable(folder)
    models = {"encoder": encoder}
    models |= {name: make(origin, settings.seed) for name, make in make_baselines.items()}
    return [Contestant(subject, model, folder, weights) for subject, model in models.items()]


def _origin(path: Path, encoder: Encoder) -> Origin:
    """Where the encoder of a run folder or a weights file comes from."""
    run = run_of(weights_file(path))
    if run is None or kind_of(run.folder.start / WEIGHTS) is None:
        return Origin(encoder.info)
    return Origin(encoder.info, run.folder.start, run.settings.init is None)


def evaluation_folder(run: str | Path) -> Path:
    """``evaluation/`` beside a run's encoder; a folder in it for weights of another name, which are others."""
    file = weights_file(Path(run))
    folder = RunFolder(file.parent).evaluation
    return folder if file.name == WEIGHTS else folder / file.stem
