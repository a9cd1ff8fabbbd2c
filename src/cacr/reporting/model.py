"""The networks of a run as they were after its last checkpoint."""

from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import torch
from torch import Tensor, nn

from cacr.config import PretrainSettings
from cacr.encoders import Encoder, load_encoder
from cacr.encoders.files import weights_file
from cacr.errors import UserError
from cacr.losses import OBJECTIVES, Objective
from cacr.losses.engine.pairs import unit
from cacr.runs.folder import RunFolder
from cacr.training.build import build_method
from cacr.training.checkpoints import load_latest

_USUAL_T = 2.0


@dataclass(frozen=True)
class RunModel:
    """The encoder of a run, and the head whose embeddings its objective compared.

    Attributes:
        settings: Of the run.
        encoder: In evaluation mode.
        head: Features -> embeddings; None where it is not known, and features stand for embeddings.
        objective: What was minimised.
        digest: Of the encoder's weights: what was computed with others is out of date.
        note: Why there is no head, in words.
    """

    settings: PretrainSettings
    encoder: Encoder
    head: nn.Module | None
    objective: Objective | None
    digest: str
    note: str = ""

    @property
    def t_pos(self) -> float:
        """t+ of the objective, or of CACR where it has none."""
        return float(getattr(self.objective, "t_pos", 1.0))

    @property
    def t_neg(self) -> float:
        """t- of the objective; a temperature tau on cosines is t- = 1 / (2 tau)."""
        t_neg = getattr(self.objective, "t_neg", None)
        temperature = getattr(self.objective, "temperature", None)
        if t_neg is None and temperature is not None:
            t_neg = 1 / (2 * float(temperature))
        return _USUAL_T if t_neg is None else float(t_neg)

    @torch.inference_mode()
    def embed(self, features: Tensor) -> Tensor:
        """Unit embeddings (n, dim) of features (n, feature_dim)."""
        if self.head is None:
            return unit(features)
        return torch.cat([unit(self.head(part)) for part in torch.split(features, 4096)])


def load_model(path: Path) -> RunModel:
    """The networks of a run folder.

    Raises:
        UserError: there is no encoder yet, or its file is damaged.
    """
    run = RunFolder(path)
    settings = run.read_settings()
    encoder = load_encoder(path)
    digest = encoder_digest(path)
    try:
        state = load_latest(run.checkpoints, warn=lambda _: None)
        if state is None:
            raise UserError("no checkpoint is left")
        with torch.random.fork_rng():  # building draws random weights, and a caller keeps its own numbers
            method, _ = build_method(settings)
        method.load_state_dict(state["method"])
    except (UserError, RuntimeError, KeyError) as error:
        note = f"The projection head is not known ({error}): weights are computed on features."
        return RunModel(settings, encoder, None, _objective(settings), digest, note)
    return RunModel(settings, encoder, method.head.eval(), method.objective, digest)


def _objective(settings: PretrainSettings) -> Objective | None:
    """The objective from the settings alone; None where this version does not know it."""
    try:
        return OBJECTIVES[settings.objective](**settings.objective_options)
    except (UserError, KeyError, TypeError, ValueError):
        return None


def encoder_digest(path: Path) -> str:
    """A hash of the encoder's file; empty where there is none."""
    try:
        content = weights_file(path).read_bytes()
    except (UserError, OSError):
        return ""
    return blake2b(content, digest_size=16).hexdigest()
