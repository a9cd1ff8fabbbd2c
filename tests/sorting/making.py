"""Collections of made-up features, without an encoder or images."""

from typing import Any

import numpy as np
import torch
from torch.nn.functional import normalize

from cacr.data import ArraySource, KnownLabels
from cacr.features.collection import Collection
from cacr.features.machine import Machine


def collection(
    features: np.ndarray, labels: list[int] | None = None, names: tuple[str, ...] = ()
) -> Collection:
    """Images that are nothing but features; ``labels`` has -1 for those without one."""
    values = torch.from_numpy(np.asarray(features, dtype=np.float32))
    source = ArraySource("made", torch.zeros(len(values), 3, 8, 8, dtype=torch.uint8))
    known = None if labels is None else KnownLabels(np.array(labels, dtype=np.int64), names)
    parts: dict[str, Any] = {"encoder": None, "reader": None}
    return Collection(
        source=source,
        index=np.arange(len(values)),
        features=values,
        vectors=normalize(values, dim=1),
        known=known,
        unreadable=0,
        machine=Machine(),
        **parts,
    )


def blobs(
    sizes: list[int], *, dim: int = 16, noise: float = 0.1, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Features around orthogonal directions, and the direction of each."""
    rng = np.random.default_rng(seed)
    which = np.repeat(np.arange(len(sizes)), sizes)
    return np.eye(dim)[which] + noise * rng.normal(size=(len(which), dim)) / np.sqrt(dim), which
