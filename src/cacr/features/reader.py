"""Fit the reader of an encoder's features: the directions in which they vary, and their variances.

Features of most encoders, and pixels, have a large common part, and a few directions in which all images differ a lot.
These dominate the cosine. With m the mean of the features and V, lambda their leading principal directions and
variances, images are compared by the cosine of

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
"""Default reader of everything that compares features by cosine."""

MOST_IMAGES = 4096
"""Number of images for fitting a reader, enough for the leading directions; a random sample if there are more."""

LEAST_IMAGES = 64
"""With fewer images the variances are not known well enough: features are then read raw."""

IMAGES_PER_COMPONENT = 4
"""With n - 1 components, n images would all have the same distance from each other."""

SMALLEST = 1e-6
"""Smallest variance, relative to the largest, that is scaled up; smaller ones are rounding errors."""

Matrix = NDArray[np.float64]


def reader_field() -> ReaderKind:
    """The setting ``reader`` of protocols that compare features."""
    kind: ReaderKind = Field(
        READER,
        description="transformation of features: raw, centred, half_white or white, fitted without labels",
    )
    return kind


def components_field() -> int:
    """The setting ``reader_components``."""
    count: int = Field(
        COMPONENTS, ge=1, le=100_000, description="number of principal components of half_white and white"
    )
    return count


def asked_reader(kind: str | None, components: int | None) -> ReaderKind | None:
    """A kind of reader by name, with a check of the number of components.

    Raises:
        UserError: there is no such kind, or the number of components is wrong.
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
    """The reader of an encoder; if it has none, or another is asked for, one fitted to features."""
    if kind is None and components is None and encoder.reader is not None:
        return encoder.reader
    return fit_reader(features, kind or READER, components or COMPONENTS)


def described(reader: Reader) -> dict[str, Any]:
    """Description of the reader in a result; ``raw`` if there were too few images for another."""
    return {"reader": reader.kind, "reader_dim": reader.dim, "reader_images": reader.images}


def fit_reader(features: Tensor, kind: ReaderKind = READER, components: int = COMPONENTS) -> Reader:
    """Fit a reader to features, without labels.

    Directions with a variance below :data:`SMALLEST` of the largest are left out, and at most n /
    :data:`IMAGES_PER_COMPONENT` are kept for n images. Features that do not vary become zero.

    Args:
        features: (n, feature_dim), not normalised; of features in a file only the sample is copied.
        kind: See above. With fewer than :data:`LEAST_IMAGES` images, or with features that are not finite, the reader
            is ``raw``.
        components: Largest number of principal components.
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
    # The mean of a constant may not be exact: the rest is rounding, not variance.
    rounding = (torch.finfo(torch.float32).eps ** 2) * float(mean.square().sum())
    kept = variances > max(SMALLEST * variances[0], rounding)
    if not kept.any():
        return Reader(kind, len(rows), mean.float().cpu(), torch.zeros(features.shape[1], 1))
    scale = variances[kept] ** (-1 / 2 if kind == "white" else -1 / 4)
    turned = torch.from_numpy(directions[:, kept] * scale).float()
    return Reader(kind, len(rows), mean.float().cpu(), turned.contiguous())


def _principal(rows: Tensor, mean: Tensor, count: int) -> tuple[Matrix, Matrix]:
    """Variances (count,), largest first, and unit directions (dim, count).

    Computed from the covariance or, if there are fewer images than dimensions, from the inner products, which have
    the same eigenvalues. The largest entry of a direction is positive, so that signs are the same on every machine.
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
    """Features in double precision, block by block."""
    return (block.double() for block in torch.split(rows, max(1, BLOCK // rows.shape[1])))
