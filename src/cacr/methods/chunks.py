"""Large batches on one device: images are encoded a few at a time, twice."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from cacr.encoders import held_statistics


def encoded(
    encode: Callable[..., Tensor], views: Sequence[Tensor], chunk: int | None, module: nn.Module
) -> Tensor:
    """Embeddings (views, images, dim) by ``encode(*views)``, for not more than ``chunk`` images at a time.

    The first pass keeps no graph. In the backward pass, when the gradients of all embeddings are known, each
    chunk is encoded once more, with the random numbers of its first pass, and its graph is freed before the
    next chunk's begins. So the activations of one chunk are held instead of those of the batch; the value and
    the gradients are those of the whole batch, if images are encoded independently of each other: batch norm
    has the statistics of a chunk. Its running averages are updated in the first pass alone.

    Args:
        encode: One tensor (views, images, 3, size, size) for each size of crop -> embeddings, by ``module``.
        views: What it is called with.
        chunk: None: the batch as a whole, once.
        module: What holds the batch norms.
    """
    images = views[0].shape[1]
    if chunk is None or images <= chunk:
        return encode(*views)
    # Parts of equal size but for one image: a remainder of one would have no batch statistics.
    parts = zip(*(x.tensor_split(-(-images // chunk), dim=1) for x in views), strict=True)
    if not torch.is_grad_enabled():
        return torch.cat([encode(*part) for part in parts], dim=1)
    twice = [
        checkpoint(
            encode, *part, use_reentrant=False, context_fn=lambda: (nullcontext(), held_statistics(module))
        )
        for part in parts
    ]
    return torch.cat(twice, dim=1)


def describe_chunks(module: nn.Module, chunk: int) -> str:
    """What a user should know about encoding ``chunk`` images at a time."""
    what = f"each process encodes {chunk} images at a time, twice a step: less memory, more time"
    if not any(isinstance(layer, _BatchNorm) for layer in module.modules()):
        return f"{what}; loss and gradients are those of the whole batch"
    return (
        f"{what}; batch norm takes the statistics of {chunk} images at a time, so that loss and gradients are "
        "not those of the whole batch, and its running averages move once for each part of the batch"
    )
