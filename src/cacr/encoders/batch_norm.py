"""Batch norm that separates the statistics of views in one forward pass."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import MethodType

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from cacr.encoders.shared_statistics import asks_others, normalise_together


def normalise_per_view(module: nn.Module, views: int) -> None:
    """Make every batch-norm layer of a module treat its input as ``views`` equal parts along the batch.

    In training mode a view-major batch (views * images, ...) then gives the values, gradients, running statistics and
    batch counts of ``views`` forward calls, one per view. Evaluation mode and state dicts are unchanged. It may be
    called again with another number; 1 gives ordinary batch norm.
    """
    for layer in module.modules():
        if isinstance(layer, _BatchNorm):
            layer.views = views  # type: ignore[assignment]
            # copy.deepcopy copies a bound method together with its layer, but not a closure.
            layer.forward = MethodType(_forward, layer)  # type: ignore[method-assign]


def share_statistics(module: nn.Module) -> None:
    """Make every batch-norm layer of a module use the statistics of all processes in training mode.

    Values, gradients and running statistics are then those of one process with the whole batch, for shares of any
    size. Evaluation mode and state dicts are unchanged.
    """
    for layer in module.modules():
        if isinstance(layer, _BatchNorm):
            layer.shared = True  # type: ignore[assignment]
    normalise_per_view(module, 1)


def fix_statistics(module: nn.Module) -> None:
    """Make every batch-norm layer of a module use its running statistics, in training mode too.

    Weights and biases are still trained.
    """
    for layer in module.modules():
        if isinstance(layer, _BatchNorm) and layer.track_running_stats:
            layer.train = MethodType(_stay_at_rest, layer)  # type: ignore[method-assign]
            layer.eval()


def _stay_at_rest(layer: _BatchNorm, mode: bool = True) -> _BatchNorm:
    layer.training = False
    return layer


def shares_statistics(layer: nn.Module) -> bool:
    """Whether a layer has no batch statistics of its own process."""
    return not isinstance(layer, _BatchNorm) or bool(getattr(layer, "shared", False))


@contextmanager
def held_statistics(module: nn.Module) -> Iterator[None]:
    """Context manager: batch norm in training mode does not change running statistics and batch counts."""
    tracking = [
        layer for layer in module.modules() if isinstance(layer, _BatchNorm) and layer.track_running_stats
    ]
    held = [(layer, layer.momentum, layer.num_batches_tracked) for layer in tracking]
    for layer, _, count in held:
        layer.momentum = 0.0
        layer.num_batches_tracked = None if count is None else count.clone()
    try:
        yield
    finally:
        for layer, momentum, count in held:
            layer.momentum, layer.num_batches_tracked = momentum, count


def _forward(layer: _BatchNorm, x: Tensor) -> Tensor:
    """``layer(x)``, part by part."""
    views: int = layer.views  # type: ignore[assignment]
    forward = type(layer).forward
    if not layer.training:
        return forward(layer, x)
    if len(x) % views:
        raise ValueError(f"{len(x)} inputs cannot be divided into {views} views")
    if asks_others(layer):
        return normalise_together(layer, x, views)
    if views == 1:
        return forward(layer, x)
    return torch.cat([forward(layer, part) for part in x.chunk(views)])
