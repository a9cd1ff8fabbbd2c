"""What every objective has in common: how it is called, and that it never returns a silent NaN."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from cacr.errors import UserError
from cacr.losses.engine.pairs import Negatives, Pairs, in_batch, labelled
from cacr.losses.engine.reductions import Backend
from cacr.registry import Registry

OBJECTIVES: Registry[type["Objective"]] = Registry("objective")


class NotFiniteError(UserError, ValueError):
    """A loss that is NaN or infinite."""


class Objective(nn.Module, ABC):
    """A function of embeddings that training makes small.

    It can be called, and asked for its :meth:`parts`, in four ways:

    - ``loss(z)`` with z of shape (views, images, dim);
    - ``loss(z0, z1)`` with two views, each (images, dim);
    - ``loss(embeddings, labels)`` with (rows, dim) and integer (rows,): one label's rows are positives;
    - ``loss(pairs)`` with what a builder of :mod:`cacr.losses.engine.pairs` made of momentum keys, a queue or texts.

    Attributes:
        negatives: Which in-batch negatives a call with embeddings uses.
        backend: How reductions over keys are computed; set it to ``dense`` for second-order gradients.
        supports_ring: Whether it can be computed while the keys stay spread over the processes (``exchange: ring``):
            made of nothing but the reductions, the positives, and averages that :class:`Pairs` takes.
    """

    negatives: Negatives = "same"
    backend: Backend = "auto"
    supports_ring: bool = False

    def __init__(self) -> None:  # an objective without settings has an empty signature, not that of nn.Module
        super().__init__()

    def forward(self, z: Tensor | Pairs, other: Tensor | None = None) -> Tensor:
        """The loss, a scalar."""
        return self.parts(z, other)["loss"]

    def parts(self, z: Tensor | Pairs, other: Tensor | None = None) -> dict[str, Tensor]:
        """The loss and the scalars that it is made of, by name; ``loss`` is among them."""
        if isinstance(z, Pairs):
            if z.ring is not None and not self.supports_ring:
                raise ValueError(
                    "this objective needs the embeddings of all processes in one place: gather them"
                )
            parts = self.of(z)
        elif other is None:
            parts = self.of_views(z)
        elif other.is_floating_point():
            parts = self.of_views(torch.stack([z, other]))
        else:
            parts = self.of(labelled(z, other))
        _check_finite(parts["loss"], z)
        return parts

    def of_views(self, z: Tensor) -> dict[str, Tensor]:
        """The parts, from the embeddings (views, images, dim) of one batch."""
        return self.of(in_batch(z, self.negatives))

    @abstractmethod
    def of(self, pairs: Pairs) -> dict[str, Tensor]:
        """The parts, from pairs."""


def _check_finite(loss: Tensor, z: Tensor | Pairs) -> None:
    """Refuse a NaN where looking is free: on an accelerator it would wait for the device at every step."""
    if torch.compiler.is_compiling() or loss.device.type != "cpu" or torch.isfinite(loss):
        return
    message = "the loss is not finite"
    if isinstance(z, Tensor):
        bad = (~torch.isfinite(z)).any(-1).nonzero()
        if len(bad):
            message += f": {len(bad)} of the embeddings hold NaN or infinity, first at {bad[0].tolist()}"
    raise NotFiniteError(f"{message}; lower the learning rate, or look for a broken input")
