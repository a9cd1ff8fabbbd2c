"""Optimisers by name, and the learning rates of the papers they come from."""

from dataclasses import dataclass

from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from cacr.config import ResolvedSettings
from cacr.training.lars import LARS

RATE_BATCH = 256
"""Images of the batch that a ``base_lr`` is for: the rate is in proportion to the batch."""


@dataclass(frozen=True)
class Usual:
    """What an optimiser is used with where nothing else is asked for.

    Attributes:
        base_lr: learning rate for a batch of 256 images.
        weight_decay: of the paper.
        states: numbers that it keeps for each weight.
    """

    base_lr: float
    weight_decay: float
    states: int


USUAL = {
    "sgd": Usual(base_lr=0.36, weight_decay=1e-4, states=1),
    "lars": Usual(base_lr=0.3, weight_decay=1.5e-6, states=1),
    "adam": Usual(base_lr=1e-3, weight_decay=1e-6, states=2),
    "adamw": Usual(base_lr=1.5e-4, weight_decay=0.1, states=2),
}
"""SGD by ``benchmarks/sweep.py`` (the paper has 0.12, with other first weights), Adam as in the paper's ResNet-50
experiments, LARS and AdamW as in MoCo v3."""


def build_optimizer(settings: ResolvedSettings, module: nn.Module) -> Optimizer:
    """The optimiser of all trainable weights; its learning rate is set before every step by the schedule."""
    parameters = [p for p in module.parameters() if p.requires_grad]
    lr, momentum, decay = settings.lr, settings.momentum, settings.weight_decay
    match settings.optimizer:
        case "lars":
            return LARS(parameters, lr=lr, momentum=momentum, weight_decay=decay)
        case "adam":
            return Adam(parameters, lr=lr, betas=(momentum, 0.999), weight_decay=decay, fused=True)
        case "adamw":
            return AdamW(parameters, lr=lr, betas=(momentum, 0.999), weight_decay=decay, fused=True)
        case _:
            return SGD(parameters, lr=lr, momentum=momentum, weight_decay=decay, fused=True)
