"""The linear probes of MoCo, MoCo v3 and HCL."""

import math

import torch
from torch import nn

from cacr.errors import UserError
from cacr.evaluation.data.task import Task
from cacr.evaluation.engine.streamed import streamed_probe
from cacr.evaluation.options import HclLinearSettings, MocoLinearSettings, MocoV3LinearSettings
from cacr.evaluation.protocols.linear_paper import dropped
from cacr.evaluation.registry import PROTOCOLS, Score
from cacr.features.encode import usual_flip
from cacr.views import PRESETS, Augmentation

MILESTONES, GAMMA = (0.6, 0.8), 0.1
"""MoCo: the rate drops by a factor of ten after 60 and 80 of 100 epochs."""


@PROTOCOLS.register("linear-moco")
def linear_moco(task: Task, settings: MocoLinearSettings) -> Score:
    """MoCo's probe: SGD with rate 30 on fresh random crops, divided by ten after 60 and 80 of 100 epochs."""
    return streamed_probe(
        task,
        _crop(task),
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        optimizer=lambda layer: torch.optim.SGD(layer.parameters(), lr=settings.lr, momentum=0.9),
        rate=lambda epoch: dropped(epoch, settings.epochs, MILESTONES, GAMMA),
        first=_small,
    )


@PROTOCOLS.register("linear-mocov3")
def linear_mocov3(task: Task, settings: MocoV3LinearSettings) -> Score:
    """MoCo v3's probe: SGD with a cosine over 90 epochs on fresh random crops; 0.1 (ResNets) or 3 (ViTs) per 256."""
    lr = settings.lr
    if lr == "auto":
        lr = 3.0 if task.encoder.info.encoder.startswith("vit") else 0.1
    batch = min(settings.batch_size, len(task.data.train))
    return streamed_probe(
        task,
        _crop(task),
        epochs=settings.epochs,
        batch_size=batch,
        optimizer=lambda layer: torch.optim.SGD(layer.parameters(), lr=lr * batch / 256, momentum=0.9),
        rate=lambda epoch: (1 + math.cos(math.pi * epoch / settings.epochs)) / 2,
        first=_small,
    )


@PROTOCOLS.register("linear-hcl")
def linear_hcl(task: Task, settings: HclLinearSettings) -> Score:
    """HCL's probe: Adam, weight decay 1e-6, on the views that the encoder was trained with, 100 epochs."""
    name = settings.preset or task.encoder.info.preset
    if name is None:
        raise UserError(
            "linear-hcl needs the views of pretraining, which this encoder does not name: set preset"
        )
    return streamed_probe(
        task,
        PRESETS[name].resized(task.encoder.info.image_size).views[0],
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        optimizer=lambda layer: torch.optim.Adam(layer.parameters(), lr=settings.lr, weight_decay=1e-6),
        rate=lambda epoch: 1.0,
        drift=settings.compat,
    )


def _crop(task: Task) -> Augmentation:
    """Random resized crop of 8 to 100 % of the area, and flip; colours untouched."""
    info = task.encoder.info
    return Augmentation(info.image_size, scale=(0.08, 1.0), flip=usual_flip(info))


def _small(layer: nn.Linear) -> None:
    """Weights from N(0, 0.01), no bias at first."""
    nn.init.normal_(layer.weight, std=0.01)
    nn.init.zeros_(layer.bias)
