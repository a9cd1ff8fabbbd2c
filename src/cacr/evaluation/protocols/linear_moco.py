"""MoCo's linear probe."""

import torch
from pydantic import Field

from cacr.evaluation.data.task import Task
from cacr.evaluation.engine.streamed import plain_crop, small_weights, streamed_probe
from cacr.evaluation.registry import PROTOCOLS, ProtocolSettings, Score
from cacr.training.optimization.schedules import multistep

MILESTONES, GAMMA = (0.6, 0.8), 0.1
"""The rate is divided by ten after 60 and 80 of 100 epochs."""


class MocoLinearSettings(ProtocolSettings):
    """MoCo's linear probe."""

    lr: float = Field(30.0, gt=0, description="learning rate of SGD, for any batch size")
    epochs: int = Field(100, ge=1, le=1_000_000, description="passes over the training images")
    batch_size: int = Field(256, ge=2, le=1_000_000, description="images per step")


@PROTOCOLS.register("linear-moco")
def linear_moco(task: Task, settings: MocoLinearSettings) -> Score:
    """MoCo's probe: SGD with rate 30 on random crops, divided by ten after 60 and 80 of 100 epochs."""
    return streamed_probe(
        task,
        plain_crop(task),
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        protocol="linear-moco",
        optimizer=lambda layer: torch.optim.SGD(layer.parameters(), lr=settings.lr, momentum=0.9),
        rate=multistep(settings.epochs, MILESTONES, GAMMA),
        first=small_weights,
    )
