"""Optimisers by name, and the learning rates of the papers they come from."""

from dataclasses import dataclass, replace
from typing import Any

from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from cacr.config import ResolvedSettings
from cacr.encoders import rates_of
from cacr.frameworks import Framework
from cacr.methods import METHODS, Rates
from cacr.training.optimization.lars import LARS

RATE_BATCH = 256
"""Batch size of a ``base_lr``: the learning rate is proportional to the batch size."""


@dataclass(frozen=True)
class OptimizerDefaults:
    """Default values of an optimiser.

    Attributes:
        base_lr: learning rate for a batch of 256 images.
        weight_decay: the value of the paper.
        states: numbers that it keeps per weight.
    """

    base_lr: float
    weight_decay: float
    states: int


DEFAULTS = {
    "sgd": OptimizerDefaults(base_lr=0.36, weight_decay=1e-4, states=1),
    "lars": OptimizerDefaults(base_lr=0.3, weight_decay=1.5e-6, states=1),
    "adam": OptimizerDefaults(base_lr=1e-3, weight_decay=1e-6, states=2),
    "adamw": OptimizerDefaults(base_lr=1.5e-4, weight_decay=0.1, states=2),
}
"""SGD by ``benchmarks/sweep.py`` (the paper has 0.12, with other first weights), Adam as in the paper's ResNet-50
experiments, LARS and AdamW as in MoCo v3."""


def method_rates(method: str | None, optimizer: str) -> Rates:
    """Rates and decay of a method with this optimiser; what it does not say is the optimiser's own."""
    defaults = DEFAULTS[optimizer]
    own = METHODS[method].rates.get(optimizer) if method else None
    own = own or Rates(defaults.base_lr)
    return own if own.weight_decay is not None else replace(own, weight_decay=defaults.weight_decay)


def build_optimizer(settings: ResolvedSettings, method: Framework) -> Optimizer:
    """The optimiser of all trainable weights; the training loop sets the rate of each group before every step."""
    parameters = _groups(settings, method)
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


def _groups(settings: ResolvedSettings, method: Framework) -> list[dict[str, Any]]:
    """The trainable weights, grouped by learning rate.

    ``factor`` of a group multiplies the rate of the run; ``scheduled`` says whether the schedule applies. Weights of
    the objective have no weight decay: a temperature should not be pulled to 1.
    """
    constant = {id(p) for module in method.constant_rate() for p in module.parameters()}
    scales = {id(p) for p in method.objective.parameters()}
    slow = _encoder_rates(settings, method.encoder.backbone)
    ratio = 1.0 if settings.bias_base_lr is None else _bias_factor(settings)
    groups: dict[tuple[bool, float, bool], list[nn.Parameter]] = {}
    for p in method.parameters():
        if p.requires_grad:
            factor = (ratio if p.ndim == 1 else 1.0) * slow.get(id(p), 1.0)
            key = (id(p) not in constant, factor, id(p) in scales)
            groups.setdefault(key, []).append(p)
    return [
        {"params": params, "scheduled": scheduled, "factor": factor}
        | ({"weight_decay": 0.0} if undecayed else {})
        for (scheduled, factor, undecayed), params in groups.items()
    ]


def _encoder_rates(settings: ResolvedSettings, backbone: nn.Module) -> dict[int, float]:
    """Learning rate of each encoder weight divided by that of the head, by the id of the weight."""
    decayed = rates_of(backbone, settings.layer_decay) if settings.layer_decay < 1 else {}
    return {id(p): settings.encoder_rate * decayed.get(name, 1.0) for name, p in backbone.named_parameters()}


def _bias_factor(settings: ResolvedSettings) -> float:
    """Learning rate of biases and norms divided by that of other weights."""
    assert settings.bias_base_lr is not None
    return settings.bias_base_lr * settings.batch_size * settings.accumulate / RATE_BATCH / settings.lr
