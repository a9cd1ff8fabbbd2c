"""A t- that follows the spread of the embeddings, so that repulsion exceeds attraction from the first step."""

import torch
from torch import Tensor, nn

LEAST = 0.01
"""Where t- starts, and below which it never falls, as a share of its full value."""

MARGIN = 0.9
"""t- grows while what attracts is less than this share of what repels."""

GROWTH, DECLINE = 2.0, 0.5
"""The factors of t- from one batch to the next."""


class FollowedSpread(nn.Module):
    """The t- of the next batch, from what attracts and what repels in this one.

    CACR's loss is A - R, with A the weighted mean distance of positives and R(t-) that of negatives, each times its
    factor. R falls as t- grows, because then near negatives weigh more (dR / dt- = -Var). Where A > R, moving
    everything together lowers the loss. So t- starts near 0, where R is the plain mean distance, and grows as far as
    the spread of the negatives allows:

        t <- min(GROWTH t, full)             where A < MARGIN R
        t <- max(DECLINE t, LEAST full)      elsewhere

    Args:
        full: the t- that it grows to.

    Attributes:
        t_now: t- of the next batch, a scalar; in the state dict, so that a resumed run goes on with it.
    """

    def __init__(self, full: float) -> None:
        super().__init__()
        self.full = full
        self.t_now: Tensor
        self.register_buffer("t_now", torch.tensor(LEAST * full))

    def share(self) -> Tensor:
        """t- of the next batch as a share of its full value; a tensor of its own, that does not move along."""
        return self.t_now / self.full

    @torch.no_grad()
    def follow(self, attracted: Tensor, repelled: Tensor) -> None:
        """Move t- after a batch, without a look at its value: the device need not be waited for.

        Args:
            attracted: A, a scalar.
            repelled: R, a scalar.
        """
        factor = torch.where(attracted < MARGIN * repelled, GROWTH, DECLINE)
        moved = (factor * self.t_now).clamp(LEAST * self.full, self.full).to(self.t_now.dtype)
        if (
            torch.compiler.is_compiling()
        ):  # a compiled backward pass computes the share again from what it was given
            self.t_now = moved
        else:  # the tensor that data parallelism sends from the first process to the others
            self.t_now.copy_(moved)
