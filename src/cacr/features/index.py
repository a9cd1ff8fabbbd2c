"""Nearest neighbours among many images: exact up to a limit, then by an approximate index."""

from typing import Any

import torch
from torch import Tensor

from cacr.data.prepare import Progress
from cacr.errors import MissingExtraError
from cacr.features.neighbours import nearest_keys

EXACT_UP_TO = 100_000
"""Up to this number of images all pairs are compared; with more, an index is made (a neighbour graph of
``usearch``)."""

QUERIES = 1024
"""Number of queries per batch."""

CONNECTIVITY, EXPANSION_ADD, EXPANSION_SEARCH = 16, 128, 128
"""Parameters of the index: links per image, and candidates when an image is added and searched for."""


class Neighbours:
    """Finds the nearest images by cosine.

    Args:
        vectors: (n, dim) unit vectors, on the CPU.
        exact_up_to: Largest number of images without an index.
        progress: Called while an index is made, with the number of images done and the total.

    Raises:
        MissingExtraError: an index is needed, and ``usearch`` is not installed.
    """

    def __init__(
        self, vectors: Tensor, *, exact_up_to: int = EXACT_UP_TO, progress: Progress | None = None
    ) -> None:
        self.vectors = vectors
        self._index: Any = None
        if len(vectors) > exact_up_to:
            self._index = _make_index(vectors, progress)

    @property
    def exact(self) -> bool:
        """Whether all images are compared."""
        return self._index is None

    def nearest(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Cosine and number (m, k) of the nearest images to unit vectors (m, dim), nearest first."""
        k = min(k, len(self.vectors))
        if self._index is None:
            return nearest_keys(queries, self.vectors, k)
        found = self._index.search(queries.numpy(), k, threads=torch.get_num_threads())
        number = torch.from_numpy(found.keys.astype("int64")).view(len(queries), k)
        # The index returns a distance; the cosine is computed from the vectors, so that it is the same with and
        # without index.
        cosine = torch.einsum("md,mkd->mk", queries, self.vectors[number])
        cosine, order = cosine.sort(dim=1, descending=True, stable=True)
        return cosine, number.gather(1, order)

    def of_all(self, k: int, progress: Progress | None = None) -> tuple[Tensor, Tensor]:
        """Cosine and number (n, k) of the nearest other images of every image, nearest first."""
        count = len(self.vectors)
        k = min(k, count - 1)
        cosines, numbers = [], []
        for start in range(0, count, QUERIES):
            own = torch.arange(start, min(start + QUERIES, count))
            cosine, number = self.nearest(self.vectors[own], k + 1)
            # Equal images may come in any order, and an index may miss the image itself: then the last one is dropped.
            itself = number == own[:, None]
            itself[~itself.any(dim=1), -1] = True
            cosines.append(cosine[~itself].view(len(own), k))
            numbers.append(number[~itself].view(len(own), k))
            if progress is not None:
                progress(start + len(own), count)
        return torch.cat(cosines), torch.cat(numbers)


def _make_index(vectors: Tensor, progress: Progress | None) -> Any:
    try:
        from usearch.index import Index
    except ImportError:
        raise MissingExtraError(f"comparing more than {EXACT_UP_TO:,} images", "index") from None
    index = Index(
        ndim=vectors.shape[1],
        metric="ip",
        dtype="f32",
        connectivity=CONNECTIVITY,
        expansion_add=EXPANSION_ADD,
        expansion_search=EXPANSION_SEARCH,
    )
    keys = torch.arange(len(vectors))
    for some in torch.split(keys, 8 * QUERIES):
        index.add(some.numpy(), vectors[some].numpy(), threads=torch.get_num_threads())
        if progress is not None:
            progress(int(some[-1]) + 1, len(vectors))
    return index
