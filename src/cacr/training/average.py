"""An average of the weights over the steps of a run, which moves less than they do."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Average:
    """The exponential moving average of all trained weights of a model, from those that it starts with on.

    After each step: average <- keep average + (1 - keep) weights. Of the first weights keep^steps is left in it, which
    is what a training that continues from good ones wants. Buffers, such as batch-norm statistics, are not averaged.

    Args:
        model: Whose weights are followed.
        keep: Share that the average keeps of itself at a step.
    """

    def __init__(self, model: nn.Module, keep: float) -> None:
        self._keep = keep
        self._weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        self._mean: dict[str, Tensor] = {}

    @torch.no_grad()
    def follow(self) -> None:
        """Take a step towards the weights."""
        torch._foreach_lerp_(list(self.state().values()), list(self._weights.values()), 1 - self._keep)

    def state(self) -> dict[str, Tensor]:
        """The averages by name; at first the weights themselves."""
        if not self._mean:
            self._mean = {name: weight.detach().clone() for name, weight in self._weights.items()}
        return self._mean

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on with averages that fit."""
        self._mean = {name: state[name].to(weight.device) for name, weight in self._weights.items()}

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """While it lasts, the model has the averages in place of its weights."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for name, mean in self.state().items():
            weight = self._weights[name]
            self._mean[name], weight.data = weight.data, mean
