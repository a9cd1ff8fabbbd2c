"""The number type of products, with and without autocast."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """Switch autocast off on a device, because costs near zero would be rounded; does nothing on the meta device."""
    return nullcontext() if device.type == "meta" else torch.autocast(device.type, enabled=False)


def product_dtype(x: Tensor) -> torch.dtype:
    """The type in which autocast would multiply ``x`` if it is on, else the type of ``x``."""
    kind = x.device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return x.dtype
    return torch.get_autocast_dtype(kind)
