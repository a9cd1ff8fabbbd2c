"""Base classes of objectives: how they are called, and a check for NaN."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from cacr.errors import UserError
from cacr.losses.engine.pairs import Negatives, Pairs, in_batch, labelled
from cacr.losses.engine.reductions import Backend
from cacr.losses.engine.scores import Scores
from cacr.registry import Registry

Input = Literal["pairs", "views", "scores"]
"""Kinds of input of an objective. A new kind needs a word here, a framework that provides it, and objectives that take
it."""

INPUTS: dict[Input, str] = {
    "pairs": "pairs",  # queries with their positives and negatives, cacr.losses.engine.pairs.Pairs
    "views": "embeddings (views, images, dim)",  # all of the global batch in one place
    "scores": "scores with prototypes",  # cacr.losses.engine.scores.Scores
}
"""Descriptions of the kinds."""

Given = Tensor | Pairs | Scores
"""Possible first arguments of an objective."""

OBJECTIVES: Registry[type["Objective"]] = Registry("objective")


class NotFiniteError(UserError, ValueError):
    """A loss that is NaN or infinite."""


class Objective(nn.Module, ABC):
    """A function of embeddings that training minimises.

    It, and its :meth:`parts`, can be called in two ways (a :class:`PairObjective` in two more):

    - ``loss(z)`` with z of shape (views, images, dim);
    - ``loss(z0, z1)`` with two views, each (images, dim).

    A framework checks only these attributes before it trains with an objective.

    Attributes:
        takes: Kinds of input.
        negatives: In-batch negatives of a call with embeddings.
        has_negatives: Whether it compares an image with others.
        fixed_negatives: Why it only works with the keys that ``negatives`` names; empty: works with any.
        needs_shared_keys: Why all query views must have the same negatives, from ``all`` views or a queue; empty:
            they need not.
        needs_captions: Whether it compares only images with texts.
        needs_predictor: Whether it collapses without a predictor and targets without gradient.
        local_crops: Whether it supports local crops.
        local_keys: Whether local crops are also keys; otherwise they are only queries.
        supports_ring: Whether it works with keys distributed over processes (``exchange: ring``): it must only use the
            reductions, the positives, and averages of :class:`Pairs`.
        backend: How reductions over keys are computed; set it to ``dense`` for second-order gradients.
        seed: Seed of what it draws at random; a run sets its own, the same in all processes.
        only_with: Options that have an effect only if another option has one of some values: name -> (other, values).
    """

    takes: frozenset[Input] = frozenset({"views"})
    negatives: Negatives = "same"
    has_negatives: bool = True
    fixed_negatives: str = ""
    needs_shared_keys: str = ""
    needs_captions: bool = False
    needs_predictor: bool = False
    local_crops: bool = True
    local_keys: bool = False
    supports_ring: bool = False
    backend: Backend = "auto"
    seed: int = 0
    only_with: ClassVar[Mapping[str, tuple[str, tuple[str, ...]]]] = {}

    def __init__(self) -> None:  # gives objectives without settings an empty signature, not that of nn.Module
        super().__init__()

    def forward(self, z: Given, other: Tensor | None = None) -> Tensor:
        """The loss, a scalar."""
        return self.parts(z, other)["loss"]

    def parts(
        self, z: Given, other: Tensor | None = None, *, global_views: int | None = None
    ) -> dict[str, Tensor]:
        """The loss and its parts, by name; includes ``loss``.

        Args:
            z: as for a call.
            other: as for a call.
            global_views: number of views of z (the first ones) that are global crops; None: all. The others are local.
        """
        parts = self._of(z, other, global_views)
        _check_finite(parts["loss"], z)
        return parts

    def begin_step(self, step: int, total: int) -> None:
        """Called before each training step, from 0, of ``total``: for random draws and scheduled values."""
        return None

    def _of(self, z: Given, other: Tensor | None, global_views: int | None = None) -> dict[str, Tensor]:
        """The parts, for any kind of call."""
        if isinstance(z, Scores):
            raise TypeError(self.refusal("scores"))
        if isinstance(z, Pairs) or _are_labels(other):
            raise TypeError(self.refusal("pairs"))
        return self.of_views(z if other is None else torch.stack([z, other]), global_views)

    @abstractmethod
    def of_views(self, z: Tensor, global_views: int | None = None) -> dict[str, Tensor]:
        """The parts, from the embeddings (views, images, dim) of one batch; ``global_views`` as for :meth:`parts`."""

    def refusal(self, given: Input) -> str | None:
        """Why it cannot be computed from this kind of input; None if it can."""
        if given in self.takes:
            return None
        accepted = " or ".join(INPUTS[kind] for kind in sorted(self.takes))
        return f"{type(self).__name__} takes {accepted}, not {INPUTS[given]}"


class PairObjective(Objective):
    """An objective that compares queries with positives and negatives of any origin.

    In addition to embeddings, it can be called with

    - ``loss(embeddings, labels)``, (rows, dim) and integer (rows,): rows with the same label are positives;
    - ``loss(pairs)`` with the result of a builder of :mod:`cacr.losses.engine.pairs` for momentum keys, a queue or
      texts.
    """

    takes: frozenset[Input] = frozenset({"pairs", "views"})

    @abstractmethod
    def of(self, pairs: Pairs) -> dict[str, Tensor]:
        """The parts, from pairs."""

    def of_views(self, z: Tensor, global_views: int | None = None) -> dict[str, Tensor]:
        """The parts, from the embeddings of one batch; local crops are only queries."""
        return self.of(in_batch(z, self.negatives, key_views=self.key_views(global_views)))

    def key_views(self, global_views: int | None) -> range | None:
        """The views that are keys, if the first ``global_views`` are global crops; None: all."""
        return None if global_views is None or self.local_keys else range(global_views)

    def _of(self, z: Given, other: Tensor | None, global_views: int | None = None) -> dict[str, Tensor]:
        if isinstance(z, Pairs):
            if z.ring is not None and not self.supports_ring:
                raise ValueError(
                    "this objective needs the embeddings of all processes in one place: gather them"
                )
            return self.of(z)
        if isinstance(z, Tensor) and other is not None and _are_labels(other):
            return self.of(labelled(z, other))
        return super()._of(z, other, global_views)


def _are_labels(other: Tensor | None) -> bool:
    """Whether the second argument of a call has labels, not a second view."""
    return other is not None and not other.is_floating_point()


def _check_finite(loss: Tensor, z: Given) -> None:
    """Raise an error for NaN, but only on a CPU: on an accelerator this would wait for the device at every step."""
    if torch.compiler.is_compiling() or loss.device.type != "cpu" or torch.isfinite(loss):
        return
    message = "the loss is not finite"
    if isinstance(z, Tensor):
        bad = (~torch.isfinite(z)).any(-1).nonzero()
        if len(bad):
            message += f": {len(bad)} of the embeddings are NaN or infinite, the first at {bad[0].tolist()}"
    raise NotFiniteError(f"{message}; lower the learning rate, or check the input")
