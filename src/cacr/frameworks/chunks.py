"""Large batches on one device: images are encoded a few at a time, twice."""

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
"""One tensor (views, images, 3, size, size) for each size of crop."""


def in_chunks(views: _Views, chunk: int | None) -> list[_Views]:
    """The same views in parts of at most ``chunk`` images; None: in one.

    Parts differ by at most one image, because a remainder of one would have no batch statistics; and every
    process has the same number of them, because batch norm may have to talk to the others in each.
    """
    if chunk is None:
        return [views]
    images, device = views[0].shape[1], views[0].device
    largest = images if world_size() == 1 else max(Ring.of(images, device).sizes)
    return list(zip(*(x.tensor_split(-(-largest // chunk), dim=1) for x in views), strict=True))


def encode_twice(encode: Callable[[_Views], Tensor], parts: Sequence[_Views], module: nn.Module) -> Tensor:
    """Embeddings (views, images, dim) of the images of all parts, while the graph of one part is held.

    The first pass keeps no graph. In the backward pass, when the gradients of all embeddings are known, each
    part is encoded once more, with the random numbers of its first pass, and its graph is freed before the
    next part's begins. So the activations of one part are held instead of those of the batch; the value and
    the gradients are those of the whole batch, if images are encoded independently of each other: batch norm
    has the statistics of a part. Its running averages are updated in the first pass alone.

    Args:
        encode: Views -> embeddings, by ``module``.
        parts: As :func:`in_chunks` makes them; one part is encoded once.
        module: What holds the batch norms.
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
    """What a user should know about encoding ``chunk`` images at a time."""
    what = f"each process encodes {chunk} images at a time, twice a step: less memory, more time"
    if not any(isinstance(layer, _BatchNorm) for layer in module.modules()):
        return f"{what}; loss and gradients are those of the whole batch"
    return (
        f"{what}; batch norm takes the statistics of {chunk} images at a time, so that loss and gradients are "
        "not those of the whole batch, and its running averages move once for each part of the batch"
    )
