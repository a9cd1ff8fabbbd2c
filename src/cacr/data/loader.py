"""Load batches of a source: in a reproducible order, divided among processes, resumable at any batch."""

from collections.abc import Iterable, Iterator
from itertools import chain, islice, repeat

import numpy as np
import torch

from cacr.data.batch import Batch
from cacr.data.decoder import Crop, Decoder, Work
from cacr.data.errors import Problem, too_many_unreadable
from cacr.data.order import Plan, buffer_rng, least_batch
from cacr.data.source import ArraySource, Source
from cacr.data.stream import StreamSource, read_ahead, shuffled
from cacr.data.workers import BATCHES_AHEAD, Workers
from cacr.errors import UserError

_SHUFFLE_BUFFER = 1024  # images of a stream in the shuffle buffer


class Loader:
    """Batches of a source.

    A batch of ``batch_size`` images is divided among ``world_size`` processes without repeats or gaps; shares differ
    by at most one image. Combined in the order of ranks, they are the batch of a single process. With ``shuffle``,
    the last, incomplete batch is used if it has at least half of a batch and two images for every process, else
    dropped (the next epoch has another order). Without ``shuffle``, every image comes exactly once, in order; a
    process whose share of the last batch is empty does not get that batch.

    Images of an ``ArraySource`` are taken from memory, without worker processes. Images of other sources are decoded
    and cropped in ``workers`` processes (0: in this one). In both cases ``views(batch.images, draw)`` makes their
    views: only the loader distinguishes images in memory from files. With ``shuffle``, an unreadable image is
    replaced by the next readable one that is not in the share yet; without, it is left out. ``unreadable`` collects
    them. If there are more than ``max_unreadable`` of all images, the run stops.

    A stream is divided into consecutive parts: each process reads its own part of the shards, whose order depends on
    the seed and the epoch, and draws from a buffer of the next 1,024 images. So batches of a stream depend on
    ``world_size``, and an unreadable image is replaced by another one of its share.

    Args:
        source: the images.
        batch_size: images per batch, over all processes.
        seed: seed of order and crops; not negative.
        rank: the rank of this process.
        world_size: number of processes that share a batch.
        workers: number of decoding processes.
        crop: turns an image into views, (image, generator) -> one uint8 tensor (views, 3, size, size) per group of
            views; it must be picklable. Required for every source except an ``ArraySource``.
        shuffle: for training; without it, one pass in order, for evaluation.
        keep_small: with ``shuffle``, also use a last batch of less than half of a batch.
        at_least: shorter side in pixels that ``crop`` needs; larger JPEG files are decoded at a fraction of their
            size.
        max_unreadable: largest accepted share of unreadable images.
        pin_memory: deliver batches in page-locked memory, for a GPU.

    Attributes:
        batches_per_epoch: number of batches per epoch.
        unreadable: the unreadable images found so far, by number.
    """

    def __init__(
        self,
        source: Source,
        *,
        batch_size: int,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
        workers: int = 0,
        crop: Crop | None = None,
        shuffle: bool = True,
        keep_small: bool = False,
        at_least: int | None = None,
        max_unreadable: float = 0.1,
        pin_memory: bool = False,
    ) -> None:
        if shuffle:
            _check_batch_size(len(source), batch_size, world_size)
        self.source = source
        self.max_unreadable = max_unreadable
        self.pin_memory = pin_memory
        least = 2 * world_size if keep_small else least_batch(batch_size, world_size)
        self._plan = Plan(
            len(source), batch_size, seed, rank, world_size, shuffle, least=least if shuffle else 1
        )
        self.batches_per_epoch = len(self._plan)
        self.unreadable: dict[int, Problem] = {}
        self._workers: Workers | None = None
        if not isinstance(source, ArraySource):
            if crop is None:
                raise ValueError("images of different sizes need a crop")
            decoder = Decoder(source, crop, seed, at_least, replace=shuffle, workers=workers)
            self._workers = Workers(decoder, workers, pin_memory=pin_memory)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, starting at number ``start``; see :meth:`epochs`."""
        return self.epochs([epoch], start)

    def epochs(self, epochs: Iterable[int], start: int = 0) -> Iterator[Batch]:
        """The batches of several epochs, of the first one from number ``start``; only one such pass at a time.

        Workers continue across the end of an epoch: the first batches of the next epoch are then ready.

        Raises:
            UserError: too many images are unreadable, or a worker failed; the message names the file.
        """
        begun = zip(epochs, chain([start], repeat(0)), strict=False)
        if self._workers is None:
            return self._index(begun)
        source, plan = self.source, self._plan
        if isinstance(source, StreamSource):
            images = chain.from_iterable(_stream(source, plan, epoch, first) for epoch, first in begun)
            return self._decode(self._workers, read_ahead(images, BATCHES_AHEAD))
        work = chain.from_iterable(_choose(plan, epoch, first) for epoch, first in begun)
        return self._decode(self._workers, work)

    def close(self) -> None:
        """End the worker processes; the next epoch starts new ones."""
        if self._workers is not None:
            self._workers.close()

    def _index(self, begun: Iterator[tuple[int, int]]) -> Iterator[Batch]:
        assert isinstance(self.source, ArraySource)  # every other source has workers
        labels, captions = self.source.labels, self.source.captions
        for indices in chain.from_iterable(self._plan.batches(epoch, first) for epoch, first in begun):
            batch = Batch(
                images=self.source.take(indices),
                index=torch.from_numpy(indices),
                labels=None if labels is None else torch.from_numpy(labels[indices]),
                captions=None if captions is None else tuple(captions[index] for index in indices),
            )
            yield batch.pin_memory() if self.pin_memory else batch

    def _decode(self, workers: Workers, work: Iterator[Work]) -> Iterator[Batch]:
        for batch in workers.run(work):
            self._remember(batch.unreadable)
            if len(batch):
                yield batch

    def _remember(self, problems: tuple[Problem, ...]) -> None:
        if problems:
            self.unreadable.update({problem.index: problem for problem in problems})
            if len(self.unreadable) > self.max_unreadable * len(self.source):
                self.close()
                raise too_many_unreadable(
                    list(self.unreadable.values()), len(self.source), self.max_unreadable
                )


# These two are not methods: a generator with a reference to the loader would keep its processes alive after an
# unfinished epoch, until garbage collection.


def _choose(plan: Plan, epoch: int, start: int) -> Iterator[Work]:
    return (Work(epoch, indices) for indices in plan.batches(epoch, start))


def _stream(source: StreamSource, plan: Plan, epoch: int, start: int) -> Iterator[Work]:
    """Each process reads its part of the shuffled shards, and shuffles again in a buffer.

    A resumed epoch is read from its start, but images before the position are not decoded.
    """
    shares = plan.shares()
    begin, end = sum(part.start for part in shares), sum(part.stop for part in shares)
    images = source.stream(plan.order(len(source.shards), epoch).tolist(), begin, end)
    if plan.shuffle:
        images = shuffled(images, _SHUFFLE_BUFFER, buffer_rng(plan.seed, epoch, plan.rank))
    for number, part in enumerate(shares):
        raw = tuple(islice(images, part.stop - part.start))
        if number >= start and raw:
            yield Work(epoch, np.array([image.index for image in raw]), raw)


def _check_batch_size(count: int, batch_size: int, world_size: int) -> None:
    if batch_size < 2 * world_size:
        raise UserError(
            f"batch size {batch_size} is too small: each of {world_size} processes needs at least 2 images, so "
            f"choose {2 * world_size} or more"
        )
    if count < batch_size:
        raise UserError(
            f"there are {count:,} images, fewer than a batch of {batch_size:,}; "
            f"choose a batch size of at most {count:,} or give more images"
        )
