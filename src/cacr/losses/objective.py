"""What every objective has in common: how it is called, and that it never returns a silent NaN."""

from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import Tensor, nn

from cacr.errors import UserError
from cacr.losses.engine.pairs import Negatives, Pairs, in_batch, labelled
from cacr.losses.engine.reductions import Backend
from cacr.losses.engine.scores import Scores
from cacr.registry import Registry

Input = Literal["pairs", "views", "scores"]
"""What an objective is computed from. A further kind is a word here, a framework that gives it and objectives that
take it."""

INPUTS: dict[Input, str] = {
    "pairs": "pairs",  # queries with their positives and negatives, cacr.losses.engine.pairs.Pairs
    "views": "embeddings (views, images, dim)",  # all of the global batch in one place
    "scores": "scores with prototypes",  # cacr.losses.engine.scores.Scores
}
"""The kinds in words."""

Given = Tensor | Pairs | Scores
"""What an objective can be called with."""

OBJECTIVES: Registry[type["Objective"]] = Registry("objective")


class NotFiniteError(UserError, ValueError):
    """A loss that is NaN or infinite."""


class Objective(nn.Module, ABC):
    """A function of embeddings that training makes small.

    It can be called, and asked for its :meth:`parts`, in two ways, and a :class:`PairObjective` in two more:

    - ``loss(z)`` with z of shape (views, images, dim);
    - ``loss(z0, z1)`` with two views, each (images, dim).

    What it declares is all that a framework asks before it trains with it.

    Attributes:
        takes: What it can be computed from.
        negatives: Which in-batch negatives a call with embeddings uses.
        has_negatives: Whether it compares an image with others.
        fixed_negatives: Why no other keys will do than those that ``negatives`` names; empty: any will.
        needs_shared_keys: Why all query views must have the same negatives, from ``all`` views or a queue; empty: any
            will do.
        needs_captions: Whether it compares images with texts, and nothing else.
        needs_predictor: Whether it collapses unless its queries are predictions of targets that are held.
        local_crops: Whether it has a use for local crops.
        local_keys: Whether local crops are keys too; else they are queries only.
        supports_ring: Whether it can be computed while the keys stay spread over the processes (``exchange:
            ring``): made of nothing but the reductions, the positives, and averages that :class:`Pairs` takes.
        backend: How reductions over keys are computed; set it to ``dense`` for second-order gradients.
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

    def __init__(self) -> None:  # an objective without settings has an empty signature, not that of nn.Module
        super().__init__()

    def forward(self, z: Given, other: Tensor | None = None) -> Tensor:
        """The loss, a scalar."""
        return self.parts(z, other)["loss"]

    def parts(
        self, z: Given, other: Tensor | None = None, *, global_views: int | None = None
    ) -> dict[str, Tensor]:
        """The loss and the scalars that it is made of, by name; ``loss`` is among them.

        Args:
            z: as for a call.
            other: as for a call.
            global_views: how many views of z, from the first, are global crops; None: all. The others are local.
        """
        parts = self._of(z, other, global_views)
        _check_finite(parts["loss"], z)
        return parts

    def begin_step(self, step: int, total: int) -> None:
        """Told before each training step, from 0, of ``total``: for what is drawn anew or changes with time."""
        return None

    def _of(self, z: Given, other: Tensor | None, global_views: int | None = None) -> dict[str, Tensor]:
        """The parts, whichever way it was called."""
        if isinstance(z, Scores):
            raise TypeError(self.refusal("scores"))
        if isinstance(z, Pairs) or _are_labels(other):
            raise TypeError(self.refusal("pairs"))
        return self.of_views(z if other is None else torch.stack([z, other]), global_views)

    @abstractmethod
    def of_views(self, z: Tensor, global_views: int | None = None) -> dict[str, Tensor]:
        """The parts, from the embeddings (views, images, dim) of one batch; ``global_views`` as for :meth:`parts`."""

    def refusal(self, given: Input) -> str | None:
        """Why it cannot be computed from what is given; None where it can."""
        if given in self.takes:
            return None
        wanted = " or ".join(INPUTS[kind] for kind in sorted(self.takes))
        return f"{type(self).__name__} takes {wanted}, not {INPUTS[given]}"


class PairObjective(Objective):
    """An objective that compares queries with positives and negatives, wherever these come from.

    Beside embeddings it can be called with

    - ``loss(embeddings, labels)``, (rows, dim) and integer (rows,): one label's rows are positives;
    - ``loss(pairs)`` with what a builder of :mod:`cacr.losses.engine.pairs` made of momentum keys, a queue or texts.
    """

    takes: frozenset[Input] = frozenset({"pairs", "views"})

    @abstractmethod
    def of(self, pairs: Pairs) -> dict[str, Tensor]:
        """The parts, from pairs."""

    def of_views(self, z: Tensor, global_views: int | None = None) -> dict[str, Tensor]:
        """The parts, from the embeddings of one batch; local crops are queries only."""
        return self.of(in_batch(z, self.negatives, key_views=self.key_views(global_views)))

    def key_views(self, global_views: int | None) -> range | None:
        """Which views are keys, where the first ``global_views`` are global crops; None: all."""
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
    """Whether the second argument of a call holds labels, not a second view."""
    return other is not None and not other.is_floating_point()


def _check_finite(loss: Tensor, z: Given) -> None:
    """Refuse a NaN where looking is free: on an accelerator it would wait for the device at every step."""
    if torch.compiler.is_compiling() or loss.device.type != "cpu" or torch.isfinite(loss):
        return
    message = "the loss is not finite"
    if isinstance(z, Tensor):
        bad = (~torch.isfinite(z)).any(-1).nonzero()
        if len(bad):
            message += f": {len(bad)} of the embeddings hold NaN or infinity, first at {bad[0].tolist()}"
    raise NotFiniteError(f"{message}; lower the learning rate, or look for a broken input")
