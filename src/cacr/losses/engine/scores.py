"""Scores with prototypes: the input of objectives with assignments."""

from dataclasses import dataclass

from torch import Tensor

from cacr.losses.engine.ring import Ring


@dataclass(frozen=True)
class Scores:
    """Cosines with prototypes, from a framework to an objective.

    Attributes:
        views: (views, images, prototypes) of this process's images.
        assigning: number of views (the first ones) that give assignments: global crops.
        earlier: (assigning, n, prototypes) of embeddings of earlier batches that are used in the assignment; the
            share of this process.
        ring: the processes that share the batch, if there are several.
    """

    views: Tensor
    assigning: int
    earlier: Tensor | None = None
    ring: Ring | None = None
