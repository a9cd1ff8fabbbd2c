"""The linear probe of the paper's small-scale experiments."""

from dataclasses import replace
from typing import Annotated

import torch
from pydantic import Field

from cacr.config import Auto
from cacr.evaluation.data.task import Task
from cacr.evaluation.engine.streamed import streamed_probe
from cacr.evaluation.registry import PROTOCOLS, ProtocolSettings, Score
from cacr.features.encode import as_trained
from cacr.training.optimization.schedules import multistep
from cacr.views import probe_train

MILESTONES, GAMMA = (0.6, 0.8), 0.2
"""The rate is multiplied by 0.2 after 60 and 80 of 100 epochs."""


class PaperLinearSettings(ProtocolSettings):
    """The paper's small-scale probe: features of new random crops, Adam; the score is that of the last epoch."""

    lr: float = Field(1e-3, gt=0, description="learning rate of Adam")
    epochs: int = Field(100, ge=1, le=1_000_000, description="passes over the training images")
    batch_size: int = Field(128, ge=2, le=1_000_000, description="images per step")
    flip: Annotated[float, Field(ge=0, le=1)] | Auto = Field(
        "auto",
        description="probability of flipping a crop; auto: flipped and rotated as the encoder's training views",
    )


@PROTOCOLS.register("linear-paper")
def linear_paper(task: Task, settings: PaperLinearSettings) -> Score:
    """The paper's probe: features of new random crops in every epoch; the score is that of the last epoch.

    Adam with betas 0.5 and 0.999.
    """
    info = task.encoder.info
    (view,) = probe_train(info.image_size, info.mean, info.std).views
    view = as_trained(view, info) if settings.flip == "auto" else replace(view, flip=settings.flip)
    return streamed_probe(
        task,
        view,
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        protocol="linear-paper",
        optimizer=lambda layer: torch.optim.Adam(
            layer.parameters(), lr=settings.lr, betas=(0.5, 0.999), eps=1e-8
        ),
        rate=multistep(settings.epochs, MILESTONES, GAMMA),
    )
