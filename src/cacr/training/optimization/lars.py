"""LARS: layer-wise adaptive rate scaling, for SGD with very large batches."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


class LARS(Optimizer):
    """SGD with momentum whose step in each layer is proportional to the norm of its weights.

    For weights w with gradient g, with norms over the whole tensor (an update with norm 0 is not scaled):

        u = g + weight_decay w
        v <- momentum v + u * trust |w| / |u|
        w <- w - lr v

    One-dimensional tensors (biases and weights of norms) have no decay and no scaling.

    Args:
        parameters: parameters to train, or groups of them.
        lr: learning rate.
        momentum: momentum of the update.
        weight_decay: decay of weights with at least two dimensions.
        trust: norm of a step relative to the norm of the weights.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 0.001,
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust}
        super().__init__(parameters, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Do one step; ``closure``, if given, computes the gradients first."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for w in group["params"]:
                if w.grad is not None:
                    self._update(w, group)
        return loss

    def _update(self, w: Tensor, group: dict[str, Any]) -> None:
        u = w.grad
        assert u is not None
        if w.ndim > 1:
            u = u.add(w, alpha=group["weight_decay"])
            length, size = torch.linalg.vector_norm(w), torch.linalg.vector_norm(u)
            # No branch on the norms: it would make the program wait for the device.
            rate = torch.where((length > 0) & (size > 0), group["trust"] * length / size, 1.0)
            u = u * rate
        state = self.state[w]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(w)
        state["momentum_buffer"].mul_(group["momentum"]).add_(u)
        w.add_(state["momentum_buffer"], alpha=-group["lr"])
