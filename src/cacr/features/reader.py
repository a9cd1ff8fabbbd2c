"""Fitting the reader of an encoder's features: which directions they vary in, and by how much.

Features of most encoders, and pixels, have a large common part and a few directions in which all images differ a lot. A
cosine of such features hears little else. With m the mean of the features and V, lambda their leading principal
directions and variances, images are compared by the cosine of

    raw          x
    centred      x - m
    half_white   (x - m) V diag(lambda^-1/4)
    white        (x - m) V diag(lambda^-1/2)
"""

from collections.abc import Iterator
from typing import Any, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from cacr.encoders import Encoder, Reader, ReaderKind
from cacr.encoders.reader import BLOCK
from cacr.errors import UserError
from cacr.randomness import generator
from cacr.registry import nearest

READER: ReaderKind = "half_white"
COMPONENTS = 256
"""The default reader of everything that compares features by their cosine."""

MOST_IMAGES = 4096
"""Images that a reader is fitted on, drawn where there are more: enough for the leading directions."""

LEAST_IMAGES = 64
"""Of fewer images too little is known of how features vary: they are read raw."""

IMAGES_PER_COMPONENT = 4
"""With n - 1 components of n images all of these would be equally far apart, whatever they show."""

SMALLEST = 1e-6
"""Variance, as a share of the largest, that is still made larger; below it is what rounding leaves."""

Matrix = NDArray[np.float64]


def reader_field() -> ReaderKind:
    """The setting ``reader`` of what compares features."""
    kind: ReaderKind = Field(
        READER, description="how features are read: raw, centred, half_white or white, fitted without labels"
    )
    return kind


def components_field() -> int:
    """The setting ``reader_components``."""
    count: int = Field(
        COMPONENTS, ge=1, le=100_000, description="principal components that half_white and white keep"
    )
    return count


def asked_reader(kind: str | None, components: int | None) -> ReaderKind | None:
    """A kind of reader as a user names it, and the number of components checked.

    Raises:
        UserError: there is no such kind, or no such number of components.
    """
    if components is not None and components < 1:
        raise UserError(f"reader_components must be at least 1 (got {components})")
    if kind is None:
        return None
    if kind not in get_args(ReaderKind):
        raise UserError(f"there is no reader {kind!r}; {nearest(kind, list(get_args(ReaderKind)))}")
    return cast(ReaderKind, kind)


def choose_reader(
    encoder: Encoder, features: Tensor, kind: ReaderKind | None = None, components: int | None = None
) -> Reader:
    """The reader that belongs to an encoder; where it has none, or another is asked for, one fitted to features."""
    if kind is None and components is None and encoder.reader is not None:
        return encoder.reader
    return fit_reader(features, kind or READER, components or COMPONENTS)


def described(reader: Reader) -> dict[str, Any]:
    """What a result says of the reader that was used: it is ``raw`` where images were too few for another."""
    return {"reader": reader.kind, "reader_dim": reader.dim, "reader_images": reader.images}


def fit_reader(features: Tensor, kind: ReaderKind = READER, components: int = COMPONENTS) -> Reader:
    """A reader of features like these; no labels have a part in it.

    Directions of variance below :data:`SMALLEST` of the largest are left out, and of n images at most n /
    :data:`IMAGES_PER_COMPONENT` are kept. Features that do not vary at all are read as zero.

    Args:
        features: (n, feature_dim) of any length; of those that lie in a file only what is drawn is copied.
        kind: See above. Of fewer than :data:`LEAST_IMAGES` images, and of features that are not finite, the reader
            is ``raw``.
        components: Principal components that are kept at most.
    """
    rows = features
    if len(features) > MOST_IMAGES:
        drawn = torch.randperm(len(features), generator=generator("reader"))[:MOST_IMAGES]
        rows = features[drawn.sort().values.to(features.device)]
    raw = Reader("raw", len(rows), torch.zeros(features.shape[1]))
    if kind == "raw" or len(rows) < LEAST_IMAGES:
        return raw
    mean = sum(block.sum(dim=0) for block in _blocks(rows)) / len(rows)
    assert isinstance(mean, Tensor)
    if not bool(torch.isfinite(mean).all()):
        return raw
    if kind == "centred":
        return Reader(kind, len(rows), mean.float().cpu())
    count = min(components, len(rows) // IMAGES_PER_COMPONENT, features.shape[1])
    variances, directions = _principal(rows, mean, count)
    # A constant that is not a power of two has no exact mean: what is left of it is no variance.
    rounding = (torch.finfo(torch.float32).eps ** 2) * float(mean.square().sum())
    kept = variances > max(SMALLEST * variances[0], rounding)
    if not kept.any():
        return Reader(kind, len(rows), mean.float().cpu(), torch.zeros(features.shape[1], 1))
    scale = variances[kept] ** (-1 / 2 if kind == "white" else -1 / 4)
    turned = torch.from_numpy(directions[:, kept] * scale).float()
    return Reader(kind, len(rows), mean.float().cpu(), turned.contiguous())


def _principal(rows: Tensor, mean: Tensor, count: int) -> tuple[Matrix, Matrix]:
    """Variances (count,), largest first, and directions (dim, count) of unit length.

    From the covariance, or where images are fewer than dimensions from their products, which have the same
    eigenvalues. The largest entry of a direction is positive, so that signs are the same on every machine.
    """
    from scipy.linalg import eigh

    wide = len(rows) < rows.shape[1]
    if wide:
        centred = rows.double() - mean
        matrix = centred @ centred.T
    else:
        matrix = sum(((x - mean).T @ (x - mean) for x in _blocks(rows)), mean.new_zeros(()))
    size = len(matrix)
    values, vectors = eigh(matrix.cpu().numpy(), subset_by_index=(size - count, size - 1))
    values, vectors = values[::-1].clip(min=0), vectors[:, ::-1]
    if wide:
        vectors = centred.T.cpu().numpy() @ vectors
        vectors = vectors / np.linalg.norm(vectors, axis=0).clip(min=np.finfo(np.float64).tiny)
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(count)]
    return values / (len(rows) - 1), vectors * np.where(largest < 0, -1.0, 1.0)


def _blocks(rows: Tensor) -> Iterator[Tensor]:
    """Features in double precision, a few at a time."""
    return (block.double() for block in torch.split(rows, max(1, BLOCK // rows.shape[1])))
