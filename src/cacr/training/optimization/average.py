"""Moving average of the weights over the steps of a run."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Average:
    """Exponential moving average of all trained weights of a model.

    After each step: average <- keep average + (1 - keep) weights. It starts from the first weights, whose share after
    some steps is keep^steps: this suits a training that continues from good weights. Buffers, such as batch-norm
    statistics, are not averaged.

    Args:
        model: The model.
        keep: Share of the average that stays at each step.
    """

    def __init__(self, model: nn.Module, keep: float) -> None:
        self._keep = keep
        self._weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        self._mean: dict[str, Tensor] = {}

    @torch.no_grad()
    def follow(self) -> None:
        """Update the average after a step."""
        torch._foreach_lerp_(list(self.state().values()), list(self._weights.values()), 1 - self._keep)

    def state(self) -> dict[str, Tensor]:
        """The averages by name; before the first step, the weights themselves."""
        if not self._mean:
            self._mean = {name: weight.detach().clone() for name, weight in self._weights.items()}
        return self._mean

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Load averages from a checkpoint."""
        self._mean = {name: state[name].to(weight.device) for name, weight in self._weights.items()}

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Context manager: the model has the averages instead of its weights."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for name, mean in self.state().items():
            weight = self._weights[name]
            self._mean[name], weight.data = weight.data, mean
