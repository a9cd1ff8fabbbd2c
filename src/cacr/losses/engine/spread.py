"""A t- that adapts to the spread of the embeddings, so that repulsion exceeds attraction from the first step."""

import torch
from torch import Tensor, nn

LEAST = 0.01
"""Initial and smallest t-, as a share of its full value."""

MARGIN = 0.9
"""t- grows while attraction is less than this share of repulsion."""

GROWTH, DECLINE = 2.0, 0.5
"""Factors on t- from one batch to the next."""


class FollowedSpread(nn.Module):
    """The t- of the next batch, from attraction and repulsion in this batch.

    CACR's loss is A - R, with A the weighted mean distance of positives and R(t-) that of negatives, each times its
    factor. R falls as t- grows, because near negatives then get larger weights (dR / dt- = -Var). If A > R, moving
    all embeddings together lowers the loss. So t- starts near 0, where R is the plain mean distance, and grows as far
    as the spread of the negatives allows:

        t <- min(GROWTH t, full)             if A < MARGIN R
        t <- max(DECLINE t, LEAST full)      otherwise

    Args:
        full: the largest t-.

    Attributes:
        t_now: t- of the next batch, a scalar; it is in the state dict, so that a resumed run continues with it.
    """

    def __init__(self, full: float) -> None:
        super().__init__()
        self.full = full
        self.t_now: Tensor
        self.register_buffer("t_now", torch.tensor(LEAST * full))

    def share(self) -> Tensor:
        """t- of the next batch divided by its full value; a new tensor, which does not change later."""
        return self.t_now / self.full

    @torch.no_grad()
    def follow(self, attracted: Tensor, repelled: Tensor) -> None:
        """Update t- after a batch, without reading its value: this would make the program wait for the device.

        Args:
            attracted: A, a scalar.
            repelled: R, a scalar.
        """
        factor = torch.where(attracted < MARGIN * repelled, GROWTH, DECLINE)
        moved = (factor * self.t_now).clamp(LEAST * self.full, self.full).to(self.t_now.dtype)
        if torch.compiler.is_compiling():  # a compiled backward pass computes the share again from its inputs
            self.t_now = moved
        else:  # the tensor that data parallelism broadcasts from the first process
            self.t_now.copy_(moved)
