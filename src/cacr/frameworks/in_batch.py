"""The in-batch framework: negatives are the other images of the batch, as in SimCLR."""

from torch import Tensor

from cacr.frameworks.framework import FRAMEWORKS, Framework
from cacr.frameworks.gather import exchanged
from cacr.losses import in_batch


@FRAMEWORKS.register("in_batch")
class InBatch(Framework):
    """Negatives from the batch itself: one encoder, any number of views, gradients to queries and keys."""

    gives = "views"

    def loss(self, queries: Tensor, targets: Tensor | None) -> dict[str, Tensor]:
        """Every view is query and key of the others (see :class:`Framework`)."""
        (z,), ring = exchanged(self.exchange, queries)
        return self.objective.parts(z if ring is None else in_batch(z, self.objective.negatives, ring=ring))
