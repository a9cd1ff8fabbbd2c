"""Optimisers by name."""

from torch import nn
from torch.optim import SGD, Optimizer

from cacr.config import PretrainSettings


def build_optimizer(settings: PretrainSettings, module: nn.Module) -> Optimizer:
    """The optimiser of all trainable weights; its learning rate is set before every step by the schedule."""
    parameters = [p for p in module.parameters() if p.requires_grad]
    assert isinstance(settings.lr, float)
    return SGD(
        parameters,
        lr=settings.lr,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
        fused=True,
    )
