"""Who is measured: the encoder of a run, and the baselines beside it."""

from dataclasses import dataclass
from pathlib import Path

from cacr.config import EvaluateSettings
from cacr.encoders import Encoder, load_encoder
from cacr.encoders.files import WEIGHTS, weights_file
from cacr.evaluation.baselines import BASELINES
from cacr.files import require_writable
from cacr.runs.folder import RunFolder
from cacr.runs.result import fingerprint


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


def contestants(run: str | Path, settings: EvaluateSettings) -> list[Contestant]:
    """The encoder of a run, then the baselines asked for.

    Raises:
        UserError: an encoder that cannot be loaded, an unknown baseline, or a folder that cannot be written.
    """
    make_baselines = {name: BASELINES[name] for name in settings.baselines}
    encoder = load_encoder(run, with_reader=False)  # readers are fitted alike for all contestants
    folder, weights = evaluation_folder(run), fingerprint(weights_file(Path(run)))
    require_writable(folder)
    models = {"encoder": encoder}
    models |= {name: make(encoder.info, settings.seed) for name, make in make_baselines.items()}
    return [Contestant(subject, model, folder, weights) for subject, model in models.items()]


def evaluation_folder(run: str | Path) -> Path:
    """``evaluation/`` beside a run's encoder; a folder in it for weights of another name, which are others."""
    file = weights_file(Path(run))
    folder = RunFolder(file.parent).evaluation
    return folder if file.name == WEIGHTS else folder / file.stem
