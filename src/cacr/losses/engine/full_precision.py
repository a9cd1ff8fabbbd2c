"""Which numbers products are computed in, whatever autocast would do."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """No autocast on a device, for costs near zero would be rounded; the meta device has none."""
    return nullcontext() if device.type == "meta" else torch.autocast(device.type, enabled=False)


def product_dtype(x: Tensor) -> torch.dtype:
    """What autocast would multiply ``x`` in where it is on; else the type of ``x``."""
    kind = x.device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return x.dtype
    return torch.get_autocast_dtype(kind)
