"""The in-batch framework: negatives are the other images of the batch, as in SimCLR."""

from torch import Tensor

from cacr.frameworks.framework import FRAMEWORKS, Framework
from cacr.frameworks.gather import exchanged
from cacr.losses import PairObjective, in_batch


@FRAMEWORKS.register("in_batch")
class InBatch(Framework):
    """Negatives from the batch: one encoder, any number of views, gradients to queries and keys."""

    gives = "views"

    def loss(
        self, queries: Tensor, targets: Tensor | None, global_views: int | None = None
    ) -> dict[str, Tensor]:
        """Every view is a query, and every global crop is a key of the others (see :class:`Framework`)."""
        if why := self.objective.refusal(self.gives):
            raise TypeError(why)
        (z,), ring = exchanged(self.exchange, queries)
        if ring is None:
            return self.objective.parts(z, global_views=global_views)
        assert isinstance(self.objective, PairObjective)  # a ring takes no other objectives
        keys = self.objective.key_views(global_views)
        return self.objective.parts(in_batch(z, self.objective.negatives, key_views=keys, ring=ring))
