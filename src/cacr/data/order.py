"""The order of images and their division among processes: functions of numbers, without state.

The order of an epoch depends only on (seed, epoch), and the random numbers of an image only on (seed, epoch, its
number). So a run that is resumed in the middle of an epoch, with any number of workers, sees exactly the same images
as without interruption.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from cacr.data.source import Indices
from cacr.randomness import generator, numpy_generator


def epoch_order(count: int, seed: int, epoch: int) -> Indices:
    """A permutation of ``count`` images."""
    return numpy_generator("order", seed, epoch).permutation(count)


def sample_generator(seed: int, epoch: int, index: int) -> torch.Generator:
    """The random numbers of one image in one epoch."""
    return generator("crop", seed, epoch, index)


def buffer_rng(seed: int, epoch: int, rank: int) -> np.random.Generator:
    """The random numbers with which a process shuffles its part of a stream."""
    return numpy_generator("buffer", seed, epoch, rank)


def share(count: int, rank: int, world_size: int) -> slice:
    """The part of ``count`` images for one process: contiguous; lengths differ by at most one."""
    return slice(rank * count // world_size, (rank + 1) * count // world_size)


def least_batch(batch_size: int, world_size: int = 1) -> int:
    """Number of images from which on the last, incomplete batch of an epoch is trained on.

    Half of a batch, and two images for every process (a contrast needs two). A step with the few images that happen
    to be left over would have the full learning rate, few negatives and the batch statistics of a handful of images.
    """
    return max(2 * world_size, -(-batch_size // 2))


def count_batches(count: int, batch_size: int, least: int) -> int:
    """Number of batches per epoch; the last, incomplete one counts if it has ``least`` images or more."""
    full, rest = divmod(count, batch_size)
    return full + (rest >= least)


@dataclass(frozen=True)
class Plan:
    """How ``count`` images are divided into batches and among processes; see ``Loader`` for the rules."""

    count: int
    batch_size: int
    seed: int
    rank: int
    world_size: int
    shuffle: bool
    least: int

    def __len__(self) -> int:
        """Number of batches per epoch."""
        return count_batches(self.count, self.batch_size, self.least)

    def order(self, count: int, epoch: int) -> Indices:
        """The order of ``count`` items in an epoch."""
        return epoch_order(count, self.seed, epoch) if self.shuffle else np.arange(count)

    def batches(self, epoch: int, start: int) -> Iterator[Indices]:
        """The images of this process in each batch, from number ``start``; empty shares are skipped."""
        order = self.order(self.count, epoch)
        for number in range(start, len(self)):
            batch = order[number * self.batch_size : (number + 1) * self.batch_size]
            mine = batch[share(len(batch), self.rank, self.world_size)]
            if len(mine):
                yield mine

    def shares(self) -> list[slice]:
        """The part of each batch for this process."""
        sizes = (min(self.batch_size, self.count - n * self.batch_size) for n in range(len(self)))
        return [share(size, self.rank, self.world_size) for size in sizes]
