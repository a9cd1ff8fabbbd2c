"""Which images, in which order, on which process: all of it a function of numbers, none of it state.

The order of an epoch depends on (seed, epoch) alone and an image's own randomness on (seed, epoch, its
number) alone. So a run that is resumed in the middle of an epoch, with any number of workers, sees exactly
what it would have seen.
"""

import numpy as np
import torch

from cacr.data.source import Indices

_ORDER, _SAMPLE, _BUFFER = 1, 2, 3  # streams of randomness that never meet


def epoch_order(count: int, seed: int, epoch: int) -> Indices:
    """A permutation of ``count`` images."""
    return np.random.default_rng([_ORDER, seed, epoch]).permutation(count)


def sample_generator(seed: int, epoch: int, index: int) -> torch.Generator:
    """The random numbers of one image in one epoch."""
    state = np.random.SeedSequence([_SAMPLE, seed, epoch, index]).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0] >> np.uint64(1)))


def buffer_rng(seed: int, epoch: int, rank: int) -> np.random.Generator:
    """The random numbers with which a process shuffles its stretch of a stream."""
    return np.random.default_rng([_BUFFER, seed, epoch, rank])


def share(count: int, rank: int, world_size: int) -> slice:
    """The part of ``count`` images that a process takes: contiguous, at most one longer than another's."""
    return slice(rank * count // world_size, (rank + 1) * count // world_size)


def count_batches(count: int, batch_size: int, world_size: int, keep_all: bool) -> int:
    """Batches in an epoch.

    The last, incomplete batch counts when every process gets at least two of its images (a contrast needs
    two), or when all images are to be kept.
    """
    full, rest = divmod(count, batch_size)
    keep_rest = rest > 0 if keep_all else rest >= 2 * world_size
    return full + keep_rest
