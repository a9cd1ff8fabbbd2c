"""Read features that ``cacr embed`` wrote, for the same images and the same encoder."""

from pathlib import Path

import numpy as np
import torch

from cacr.data import Source
from cacr.encoders import Encoder
from cacr.errors import UserError
from cacr.features.encode import Features, encode
from cacr.features.machine import Machine
from cacr.files import storable
from cacr.reading.arrays import read_npz

_ARRAYS = ("features", "index", "name")

SAME_FEATURES = 1e-3
"""Largest difference between a stored and a new feature of the same encoder, relative to its length."""


def read_features(path: Path, encoder: Encoder, source: Source) -> Features:
    """The features of a source from a file of ``cacr embed``.

    Raises:
        UserError: the file is damaged, or belongs to other data or to another kind of encoder.
    """
    stored = read_npz(path, _ARRAYS)
    if len(stored) < len(_ARRAYS):
        raise UserError(f"{path} is not an .npz file of `cacr embed`")
    values, index, names = (stored[name] for name in _ARRAYS)
    sound = values.ndim == 2 and values.dtype == np.float32 and len(values) > 0 and np.isfinite(values).all()
    if not sound or index.shape != (len(values),) or index.dtype != np.int64 or names.shape != index.shape:
        raise UserError(f"{path} is not an .npz file of `cacr embed`")
    if values.shape[1] != encoder.feature_dim:
        raise UserError(
            f"{path} has features of dimension {values.shape[1]}, but this encoder gives {encoder.feature_dim}: they "
            "are of another encoder, or were written with a reader; write them again with `cacr embed` without --reader"
        )
    if (
        index.min() < 0
        or index.max() >= len(source)
        or (np.diff(index) <= 0).any()
        or any(
            storable(source.describe(int(number))) != name for number, name in zip(index, names, strict=True)
        )
    ):
        raise UserError(
            f"{path} does not have the features of {source.name}: its images have other names; "
            "write them again with `cacr embed`"
        )
    return Features(torch.from_numpy(values), torch.from_numpy(index))


def require_same_encoder(encoder: Encoder, source: Source, stored: Features, index: int, path: Path) -> None:
    """Encode one image again, to refuse features of another encoder."""
    again = encode(encoder, source.subset(np.array([index])), Machine()).values[0]
    kept = stored.values[int((stored.index == index).nonzero()[0])]
    if (again - kept).norm() > SAME_FEATURES * again.norm():
        raise UserError(
            f"the features of {source.describe(index)} in {path} differ from those of this encoder: "
            "they are of another encoder or of changed images; write them again with `cacr embed`"
        )
