"""Compare images by a few pixels, to find copies."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cacr.data.source import Indices, Source

Floats = NDArray[np.float64]

SIDE = 32
"""Side in pixels at which images are compared."""

GLANCE = 4 * SIDE
"""Size in pixels at which files are decoded for it. JPEG files that are decoded much smaller lose their detail in
another way than by resampling: then resized copies of photos correlate below :data:`DUPLICATE`."""

DUPLICATE = 0.98
"""Smallest correlation of the pixels of near-duplicates."""


def shrunk(image: Image.Image) -> Floats:
    """(3 * 32 * 32,) the pixels of the centre square of an RGB image."""
    edge = min(image.size)
    left, top = (image.width - edge) // 2, (image.height - edge) // 2
    box = (left, top, left + edge, top + edge)
    filter_ = Image.Resampling.BICUBIC if edge > SIDE else Image.Resampling.NEAREST
    return np.asarray(image.resize((SIDE, SIDE), filter_, box), dtype=np.float64).ravel()


def thumbnails(source: Source, numbers: Sequence[int]) -> Floats:
    """(n, 3 * 32 * 32) the pixels of some readable images of a source."""
    return np.array([shrunk(source.read(number, GLANCE)) for number in numbers]).reshape(len(numbers), -1)


def correlation(first: Floats, second: Floats) -> Floats:
    """(p,) correlation of the pixels of images (p, pixels); two constant images correlate fully if they are equal."""
    a, b = (x - x.mean(1, keepdims=True) for x in (first, second))
    scale = np.sqrt((a**2).sum(1) * (b**2).sum(1))
    flat = np.where(np.isclose(first, second).all(1), 1.0, 0.0)
    values: Floats = np.divide((a * b).sum(1), scale, out=flat, where=scale > 0)
    return values


def linked(pairs: Indices, count: int) -> Indices:
    """(count,) the group of each image; images of a pair (p, 2), and images paired with them, are in the same group."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    graph = coo_matrix((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(count, count))
    groups: Indices = connected_components(graph, directed=False)[1].astype(np.int64)
    return groups
