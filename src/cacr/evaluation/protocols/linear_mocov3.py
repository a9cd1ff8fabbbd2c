"""MoCo v3's linear probe."""

from typing import Annotated

import torch
from pydantic import Field

from cacr.config import Auto
from cacr.encoders import is_transformer
from cacr.evaluation.data.task import Task
from cacr.evaluation.engine.streamed import plain_crop, small_weights, streamed_probe
from cacr.evaluation.registry import PROTOCOLS, ProtocolSettings, Score
from cacr.training.optimization.schedules import cosine


class MocoV3LinearSettings(ProtocolSettings):
    """MoCo v3's linear probe."""

    lr: Annotated[float, Field(gt=0)] | Auto = Field(
        "auto", description="learning rate of SGD for a batch of 256; auto: 3 for ViTs, else 0.1"
    )
    epochs: int = Field(90, ge=1, le=1_000_000, description="passes over the training images")
    batch_size: int = Field(1024, ge=2, le=1_000_000, description="images per step")


@PROTOCOLS.register("linear-mocov3")
def linear_mocov3(task: Task, settings: MocoV3LinearSettings) -> Score:
    """MoCo v3's probe: SGD with a cosine over 90 epochs on random crops; rate 0.1 (ResNets) or 3 (ViTs) per 256."""
    lr = settings.lr
    if lr == "auto":
        lr = 3.0 if is_transformer(task.encoder.info.encoder) else 0.1
    batch = min(settings.batch_size, len(task.data.train))
    return streamed_probe(
        task,
        plain_crop(task),
        epochs=settings.epochs,
        batch_size=batch,
        protocol="linear-mocov3",
        optimizer=lambda layer: torch.optim.SGD(layer.parameters(), lr=lr * batch / 256, momentum=0.9),
        rate=cosine(settings.epochs),
        first=small_weights,
    )
