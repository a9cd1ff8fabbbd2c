"""The networks of a run after its last checkpoint."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cacr.encoders import Encoder, load_encoder
from cacr.errors import UserError
from cacr.evaluation.guest import Guest
from cacr.losses.engine.pairs import unit
from cacr.reading.tensors import misfit
from cacr.runs.run import Run
from cacr.training.building.checkpoints import load_latest
from cacr.training.building.networks import build_method
from cacr.training.settings.check import check_settings


@dataclass(frozen=True)
class RunModel:
    """The encoder of a run, and the head whose embeddings its objective compares.

    Attributes:
        run: The run.
        encoder: In evaluation mode.
        head: Features -> embeddings; None if it is not known: then features are used as embeddings.
        note: Why there is no head.
    """

    run: Run
    encoder: Encoder
    head: nn.Module | None
    note: str = ""

    @torch.inference_mode()
    def embed(self, features: Tensor) -> Tensor:
        """Unit embeddings (n, dim) of features (n, feature_dim)."""
        if self.head is None:
            return unit(features)
        return torch.cat([unit(self.head(part)) for part in torch.split(features, 4096)])


def load_model(run: Run) -> RunModel:
    """Load the networks of a run.

    Raises:
        UserError: there is no encoder yet, or its file is damaged.
    """
    if isinstance(run, Guest):
        note = "This encoder was not trained by cacr: weights are computed on features, with CACR's defaults."
        return RunModel(run, run.encoder, None, note)
    encoder = load_encoder(run.path)
    try:
        return RunModel(run, encoder, _head(run))
    except UserError as error:
        note = f"The projection head is not known ({error}): weights are computed on features."
        return RunModel(run, encoder, None, note)


def _head(run: Run) -> nn.Module:
    """The head of the last checkpoint, in evaluation mode.

    Raises:
        UserError: there is none, or it does not fit the settings.
    """
    state = load_latest(run.folder.checkpoints, warn=lambda _: None)
    if state is None:
        raise UserError("there is no checkpoint")
    check_settings(run.settings.model_dump())  # settings may have names that this version does not know
    with torch.random.fork_rng():  # building draws random weights; keep the caller's random state
        method, _ = build_method(run.settings)
    if wrong := misfit(method.state_dict(), state["method"]):
        raise UserError(f"the checkpoint does not fit {run.folder.config}: {wrong}")
    method.load_state_dict(state["method"])
    return method.head.eval()
