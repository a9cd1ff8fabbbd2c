"""Memory that is reused from one chunk to the next."""

import math

import torch
from torch import Tensor


class Workspace:
    """Named buffers that are reused for every chunk: on a CPU, new memory costs more than the arithmetic.

    Args:
        device: Device of the buffers.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._buffers: dict[str, Tensor] = {}

    def __call__(self, name: str, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """A buffer of the given shape with any content; valid until the same name is requested again."""
        size = math.prod(shape)
        buffer = self._buffers.get(name)
        if buffer is None or len(buffer) < size:
            buffer = self._buffers[name] = torch.empty(size, dtype=dtype, device=self.device)
        return buffer[:size].view(shape)
