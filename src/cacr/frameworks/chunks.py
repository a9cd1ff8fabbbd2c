"""Large batches on one device: encode a few images at a time, and recompute their activations in the backward pass."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from cacr.distributed import world_size
from cacr.encoders import held_statistics
from cacr.losses import Ring

_Views = Sequence[Tensor]
"""One tensor (views, images, 3, size, size) for each group of views: global crops, and local ones."""


def in_chunks(views: _Views, chunk: int | None) -> list[_Views]:
    """Split the views into parts of at most ``chunk`` images; None: one part.

    Parts differ by at most one image, because a rest of one image would have no batch statistics. Every process has
    the same number of parts, because batch norm may have to communicate in each part.
    """
    if chunk is None:
        return [views]
    images, device = views[0].shape[1], views[0].device
    largest = images if world_size() == 1 else max(Ring.of(images, device).sizes)
    return list(zip(*(x.tensor_split(-(-largest // chunk), dim=1) for x in views), strict=True))


def encode_twice(encode: Callable[[_Views], Tensor], parts: Sequence[_Views], module: nn.Module) -> Tensor:
    """Embeddings (views, images, dim) of the images of all parts, with the graph of only one part in memory.

    The first pass keeps no graph. In the backward pass, when the gradients of all embeddings are known, each part is
    encoded again, with the random numbers of its first pass; its graph is freed before the next part. So memory holds
    the activations of one part instead of the whole batch. Value and gradients are those of the whole batch if images
    are encoded independently of each other; batch norm uses the statistics of a part. Its running averages are
    updated only in the first pass.

    Args:
        encode: Views -> embeddings, by ``module``.
        parts: Parts from :func:`in_chunks`; a single part is encoded once.
        module: The module with the batch norms.
    """
    if len(parts) == 1:
        return encode(parts[0])
    found = [
        checkpoint(
            lambda *views: encode(views),
            *part,
            use_reentrant=False,
            context_fn=lambda: (nullcontext(), held_statistics(module)),
        )
        for part in parts
    ]
    return torch.cat(found, dim=1)


def describe_chunks(module: nn.Module, chunk: int) -> str:
    """A note for the user on encoding ``chunk`` images at a time."""
    what = f"each process encodes {chunk} images at a time, twice per step: less memory, more time"
    if not any(isinstance(layer, _BatchNorm) for layer in module.modules()):
        return f"{what}; loss and gradients are those of the whole batch"
    return (
        f"{what}; batch norm uses the statistics of {chunk} images at a time, so loss and gradients differ from "
        "those of the whole batch, and its running averages are updated once per part of the batch"
    )
