"""Randomness without state: a generator is a function of what it is for.

Everything random in a run is drawn from a generator that is seeded by the run's seed and by where it is
used (epoch, step, image, rank). Nothing has to be stored to resume a run exactly, and the number of worker
processes does not change what is drawn.
"""

import numpy as np
import torch


def mixed_seed(*keys: int) -> int:
    """One 63-bit seed from several non-negative numbers; near keys give unrelated seeds."""
    return int(np.random.SeedSequence(keys).generate_state(1, np.uint64)[0] >> np.uint64(1))


def generator(*keys: int) -> torch.Generator:
    """A CPU generator seeded by ``keys``, such as ``(seed, epoch, index)``."""
    return torch.Generator().manual_seed(mixed_seed(*keys))
