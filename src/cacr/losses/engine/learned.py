"""A learned scale of cosines."""

import math

import torch
from torch import Tensor, nn


def within(log: Tensor, least: float, most: float) -> Tensor:
    """exp(log), clipped to [``least``, ``most``], with the gradient of exp(log) everywhere.

    The gradient of a plain clip is 0 outside the bounds: a parameter that has crossed one would never come back.
    """
    value = log.exp()
    return value + (value.clamp(least, most) - value).detach()


@torch.no_grad()
def put_back(log: Tensor, least: float, most: float) -> None:
    """Clip the parameter itself to its bounds."""
    log.clamp_(math.log(least) if least else -math.inf, math.log(most))


class LearnedScale(nn.Module):
    """A positive number t, stored as the parameter ln t and kept within bounds.

    Args:
        first: Its initial value, within the bounds.
        least: The smallest t.
        most: The largest t.
    """

    def __init__(self, first: float, least: float, most: float) -> None:
        super().__init__()
        if not least <= first <= most:
            raise ValueError(f"a learned t_neg must start from {least:g} to {most:g} (got {first:g})")
        self.first, self.least, self.most = first, least, most
        self.log = nn.Parameter(torch.tensor(math.log(first)))

    def now(self) -> Tensor:
        """The number t."""
        return within(self.log, self.least, self.most)

    def share(self) -> Tensor:
        """The ratio of t to its initial value."""
        return self.now() / self.first

    def begin_step(self) -> None:
        """Call this before each training step."""
        put_back(self.log, self.least, self.most)
