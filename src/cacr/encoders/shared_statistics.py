"""Batch norm with the statistics of all processes, on any device.

torch's own ``SyncBatchNorm`` only runs on accelerators, and does not support views. Here the statistics of all views
of a layer's input are sent together, once in each direction.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from cacr.distributed import world_size


def asks_others(layer: _BatchNorm) -> bool:
    """Whether a layer needs statistics of other processes now."""
    asked = layer.training and getattr(layer, "shared", False)
    return asked and world_size() > 1


def normalise_together(layer: _BatchNorm, x: Tensor, views: int) -> Tensor:
    """``layer(x)`` in training mode for x (views * images, channels, ...), with separate statistics per view."""
    parts = x.view(views, -1, *x.shape[1:])
    normalised, mean, var, count = _Normalised.apply(parts, layer.eps)
    if layer.track_running_stats:
        with torch.no_grad():
            _follow(layer, mean, var * (count / (count - 1)))
    y: Tensor = normalised.flatten(0, 1)
    if layer.weight is not None:
        shape = (1, -1, *(1,) * (y.dim() - 2))
        y = torch.addcmul(layer.bias.view(shape), y, layer.weight.view(shape))
    y = y.to(x.dtype)
    for name in ("drop", "act"):  # timm's layers have them built in
        if hasattr(layer, name):
            y = getattr(layer, name)(y)
    return y


def _follow(layer: _BatchNorm, means: Tensor, variances: Tensor) -> None:
    """Update the running statistics with those of each view (views, channels), one after the other."""
    assert layer.running_mean is not None and layer.running_var is not None
    assert layer.num_batches_tracked is not None
    for mean, var in zip(means, variances, strict=True):
        layer.num_batches_tracked.add_(1)
        share = 1 / float(layer.num_batches_tracked) if layer.momentum is None else layer.momentum
        layer.running_mean.lerp_(mean.to(layer.running_mean.dtype), share)
        layer.running_var.lerp_(var.to(layer.running_var.dtype), share)


class _Normalised(torch.autograd.Function):
    """x (views, images, channels, ...) with mean 0 and variance 1 over all processes, and the statistics.

    For y = (x - mean) / sigma and N numbers per channel:  dx = (dy - sum dy / N - y sum(dy y) / N) / sigma.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        dims = [1, *range(3, x.dim())]
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        var, mean = torch.var_mean(wide, dims, correction=0)
        count = torch.full_like(mean[:1], wide.numel() / mean.numel())
        own = torch.cat([mean, var, count])
        gathered = [torch.empty_like(own) for _ in range(world_size())]
        dist.all_gather(gathered, own)
        found = torch.stack(gathered)
        means, variances, counts = found[:, : len(mean)], found[:, len(mean) : -1], found[:, -1:]
        count = counts.sum(0)
        mean = (counts * means).sum(0) / count
        # The variance of the union: the variance within and between the parts, without a difference of large squares.
        var = (counts * (variances + (means - mean).square())).sum(0) / count
        ctx.dims, ctx.dtype = dims, x.dtype
        ctx.shape = (*mean.shape[:1], 1, mean.shape[1], *(1,) * (x.dim() - 3))
        scale = (var + eps).rsqrt().view(ctx.shape)
        y = (wide - mean.view(ctx.shape)).mul_(scale)
        ctx.save_for_backward(y, scale, count)
        ctx.mark_non_differentiable(mean, var, count)
        return y, mean, var, count

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        y, scale, count = ctx.saved_tensors
        grad = grads[0]
        sums = torch.stack([grad.sum(ctx.dims), (grad * y).sum(ctx.dims)])
        dist.all_reduce(sums)
        level, slope = ((total / count).view(ctx.shape) for total in sums)
        return (grad - level).sub_(y * slope).mul_(scale).to(ctx.dtype), None
