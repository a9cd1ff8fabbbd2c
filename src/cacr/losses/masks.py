"""Which keys a query may see, decided block by block so that no (queries, keys) matrix is ever needed."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Mask:
    """A key is hidden from a query when both carry the same number (an image, or a label).

    Attributes:
        query: (rows,) the number of each query; the same for every leading batch dimension.
        key: (keys,) the number of each key.
        dropped: (rows, n) further keys, by position, hidden from a query; -1 fills unused places.
    """

    query: Tensor
    key: Tensor
    dropped: Tensor | None = None

    def hidden(self, rows: slice = slice(None), keys: slice = slice(None)) -> Tensor:
        """(rows, keys) true where the key is hidden, for one block."""
        hidden = self.query[rows, None] == self.key[keys]
        if self.dropped is not None:
            place = torch.arange(len(self.key), device=self.key.device)[keys]
            hidden = hidden | (self.dropped[rows, :, None] == place).any(-2)
        return hidden

    def repeat(self, times: int) -> "Mask":
        """The mask for ``times`` sets of the same queries, one after the other, before the same keys."""
        dropped = None if self.dropped is None else self.dropped.repeat(times, 1)
        return Mask(self.query.repeat(times), self.key, dropped)

    def visible(self) -> Tensor:
        """(rows,) how many keys each query sees, those in ``dropped`` included."""
        numbers = self.key.sort().values
        same = [torch.searchsorted(numbers, self.query, side=side) for side in ("right", "left")]
        return len(self.key) - (same[0] - same[1])
