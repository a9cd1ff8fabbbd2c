"""Which keys a query may see, decided block by block so that no (queries, keys) matrix is needed."""

from dataclasses import dataclass

import torch
from torch import Tensor

_ALL = slice(None)


@dataclass(frozen=True)
class Mask:
    """Keys that are hidden from some queries, for one or several of three reasons.

    Attributes:
        images: Query i and key j show the images i and j modulo this number; keys of the query's own image are hidden.
            0: no key is hidden for its image.
        labels: (rows,) of queries and (keys,) of keys; keys with the query's own label are hidden.
        dropped: (rows, n) positions of single keys that are hidden from a query; -1 fills unused places.
    """

    images: int = 0
    labels: tuple[Tensor, Tensor] | None = None
    dropped: Tensor | None = None

    def hide_(self, block: Tensor, fill: float | bool, rows: slice = _ALL, keys: slice = _ALL) -> Tensor:
        """Write ``fill`` where a key is hidden, into the block (..., rows, keys) at these rows and keys."""
        first_row, first_key = rows.start or 0, keys.start or 0
        if self.images:
            height, width = block.shape[-2:]
            shift = first_row - first_key
            # Hidden keys are on the diagonals j - i = 0, +-images, +-2 images, ... of the block.
            lowest = -((height - 1 + shift) // self.images) * self.images
            for offset in range(lowest, width - shift, self.images):
                block.diagonal(offset + shift, -2, -1).fill_(fill)
        if self.labels is not None:
            query, key = self.labels
            block.masked_fill_(query[rows, None] == key[keys], fill)
        if self.dropped is not None:
            place = torch.arange(first_key, first_key + block.shape[-1], device=block.device)
            block.masked_fill_((self.dropped[rows, :, None] == place).any(-2), fill)
        return block

    def hidden(self, s: Tensor) -> Tensor:
        """(rows, keys) true where a key is hidden, for similarities (..., rows, keys)."""
        return self.hide_(torch.zeros(s.shape[-2:], dtype=torch.bool, device=s.device), True)

    def repeat(self, times: int) -> "Mask":
        """The mask for ``times`` copies of the same queries, one after the other, with the same keys."""
        labels = None if self.labels is None else (self.labels[0].repeat(times), self.labels[1])
        return Mask(self.images, labels, None if self.dropped is None else self.dropped.repeat(times, 1))

    def visible(self, keys: int) -> int | Tensor:
        """Number of keys, of ``keys``, that a query sees, (rows,) with labels; dropped keys are counted."""
        if self.labels is None:
            return keys - (keys // self.images if self.images else 0)
        query, key = self.labels
        ordered = key.sort().values
        first, last = (torch.searchsorted(ordered, query, side=side) for side in ("left", "right"))
        return keys - (last - first)
