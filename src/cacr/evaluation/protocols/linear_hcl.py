"""HCL's linear probe."""

from dataclasses import replace

import torch
from pydantic import Field

from cacr.errors import UserError
from cacr.evaluation.data.task import Task
from cacr.evaluation.engine.streamed import streamed_probe
from cacr.evaluation.registry import PROTOCOLS, ProtocolSettings, Score
from cacr.training.optimization.schedules import constant
from cacr.views import PRESETS


class HclLinearSettings(ProtocolSettings):
    """HCL's linear probe, on the views of pretraining."""

    lr: float = Field(1e-3, gt=0, description="learning rate of Adam")
    epochs: int = Field(100, ge=1, le=1_000_000, description="passes over the training images")
    batch_size: int = Field(512, ge=2, le=1_000_000, description="images per step")
    preset: str | None = Field(
        None, description="views to train on; default: those of the encoder's pretraining"
    )
    compat: bool = Field(False, description="let the encoder's batch norm statistics drift, as in HCL's code")


@PROTOCOLS.register("linear-hcl")
def linear_hcl(task: Task, settings: HclLinearSettings) -> Score:
    """HCL's probe: Adam, weight decay 1e-6, on the views of the encoder's pretraining, 100 epochs."""
    info = task.encoder.info
    name = settings.preset or info.preset
    if name is None:
        raise UserError(
            "linear-hcl needs the views of pretraining, which are not known for this encoder: set preset"
        )
    return streamed_probe(
        task,
        replace(PRESETS[name].resized(info.image_size).views[0], upright=info.upright),
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        protocol="linear-hcl",
        optimizer=lambda layer: torch.optim.Adam(layer.parameters(), lr=settings.lr, weight_decay=1e-6),
        rate=constant(),
        drift=settings.compat,
    )
