"""Randomness without state: each generator is seeded by its purpose.

Every random number of a run comes from a generator that is seeded by its purpose, the run's seed and the place of use
(epoch, step, image, rank). Nothing has to be stored to resume a run exactly, and the number of worker processes
does not change the random numbers.
"""

from zlib import crc32

import numpy as np
import torch


def mixed_seed(purpose: str, *keys: int) -> int:
    """One 63-bit seed from a purpose and non-negative numbers; similar keys give unrelated seeds."""
    # The number of keys is included, because numpy treats (1, 2) and (1, 2, 0) as the same entropy.
    entropy = (crc32(purpose.encode()), len(keys), *keys)
    return int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> np.uint64(1))


def generator(purpose: str, *keys: int) -> torch.Generator:
    """A CPU generator for a purpose and a place, such as ``("crop", seed, epoch, index)``."""
    return torch.Generator().manual_seed(mixed_seed(purpose, *keys))


def numpy_generator(purpose: str, *keys: int) -> np.random.Generator:
    """The same as :func:`generator`, for NumPy."""
    return np.random.default_rng(mixed_seed(purpose, *keys))
