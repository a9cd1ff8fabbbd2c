"""Scores with prototypes: what objectives of assignments are computed from."""

from dataclasses import dataclass

from torch import Tensor

from cacr.losses.engine.ring import Ring


@dataclass(frozen=True)
class Scores:
    """Cosines with prototypes, as a framework hands them to an objective.

    Attributes:
        views: (views, images, prototypes) of this process's images.
        assigning: how many views, from the first, give assignments: global crops.
        earlier: (assigning, n, prototypes) of embeddings of earlier batches that take part in the assignment; this
            process's share of them.
        ring: the processes that hold the batch together, where there are several.
    """

    views: Tensor
    assigning: int
    earlier: Tensor | None = None
    ring: Ring | None = None
