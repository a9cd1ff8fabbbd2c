"""Batches of a source: in a reproducible order, shared out over processes, resumable at any batch."""

from collections.abc import Iterable, Iterator
from itertools import chain, islice, repeat

import numpy as np
import torch

from cacr.data.batch import Batch
from cacr.data.decoder import Crop, Decoder, Work
from cacr.data.errors import Problem, too_many_unreadable
from cacr.data.order import Plan, buffer_rng
from cacr.data.source import ArraySource, Source
from cacr.data.stream import StreamSource, read_ahead, shuffled
from cacr.data.workers import BATCHES_AHEAD, Workers
from cacr.errors import UserError

_SHUFFLE_BUFFER = 1024  # images of a stream that are held to be shuffled


class Loader:
    """Batches of a source.

    A batch of ``batch_size`` images is shared out over ``world_size`` processes without repeats or gaps,
    shares differing by at most one image; put together in the order of ranks they are the batch of a single
    process. With ``shuffle`` the last, incomplete batch is kept when every process gets at least two of its
    images, and dropped otherwise (next epoch's order is another). Without ``shuffle`` every image comes
    exactly once, in order, and a process whose share of the last batch is empty does not get that batch.

    An ``ArraySource`` is indexed, without worker processes, and its images come as they are; those of any
    other source are decoded and cropped in ``workers`` processes (0: in this one). Either way
    ``views(batch.images, draw)`` makes views of them: this is the one place that tells images in memory from
    images in files. An image that cannot be decoded is replaced, with ``shuffle``, by the next one that can
    and is not in the share already, and left out without; ``unreadable`` remembers it. More than
    ``max_unreadable`` of all images stops the run.

    A stream is shared out in stretches: each process reads its own part of the shards, whose order depends
    on the seed and the epoch, and draws from a buffer of the next 1,024 images. Batches of a stream
    therefore depend on ``world_size``, and an unreadable image is replaced by another of its share.

    Args:
        source: the images.
        batch_size: images in a batch, over all processes.
        seed: of the order and of the crops; not negative.
        rank: the number of this process.
        world_size: how many processes share a batch.
        workers: processes that decode.
        crop: makes an image into views, (image, generator) -> one uint8 tensor (views, 3, size, size) for
            each output size; it must be picklable. Needed for every source but an ``ArraySource``, which does
            without.
        shuffle: for training; otherwise one pass in order, for evaluation.
        at_least: shorter side in pixels that ``crop`` needs; larger JPEG files are decoded at a fraction of
            their size.
        max_unreadable: share of unreadable images that is tolerated.
        pin_memory: deliver batches in page-locked memory, for a GPU.

    Attributes:
        batches_per_epoch: how many batches an epoch has.
        unreadable: the images found unreadable so far, by number.
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
        at_least: int | None = None,
        max_unreadable: float = 0.1,
        pin_memory: bool = False,
    ) -> None:
        if shuffle:
            _check_batch_size(len(source), batch_size, world_size)
        self.source = source
        self.max_unreadable = max_unreadable
        self.pin_memory = pin_memory
        self._plan = Plan(len(source), batch_size, seed, rank, world_size, shuffle)
        self.batches_per_epoch = len(self._plan)
        self.unreadable: dict[int, Problem] = {}
        self._workers: Workers | None = None
        if not isinstance(source, ArraySource):
            if crop is None:
                raise ValueError("images of different sizes need a crop")
            decoder = Decoder(source, crop, seed, at_least, replace=shuffle, workers=workers)
            self._workers = Workers(decoder, workers, pin_memory=pin_memory)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from number ``start`` on, as :meth:`epochs` gives them."""
        return self.epochs([epoch], start)

    def epochs(self, epochs: Iterable[int], start: int = 0) -> Iterator[Batch]:
        """The batches of epochs one after the other, of the first from number ``start`` on; one such pass at a time.

        Processes that decode go on over the end of an epoch: the first batches of the next one are ready by then.

        Raises:
            UserError: too many images cannot be read, or a worker failed; the message names the file.
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
        """End the worker processes; another epoch starts new ones."""
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


# These two are no methods: a generator that held the loader would keep its processes alive after an epoch
# that was left half-way, until the garbage collector comes by.


def _choose(plan: Plan, epoch: int, start: int) -> Iterator[Work]:
    return (Work(epoch, indices) for indices in plan.batches(epoch, start))


def _stream(source: StreamSource, plan: Plan, epoch: int, start: int) -> Iterator[Work]:
    """Each process reads one stretch of the shuffled shards, and shuffles again in a buffer.

    A resumed epoch is read from its beginning, without decoding what has been seen.
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
            f"a batch of {batch_size} is too small: every one of {world_size} processes needs at least "
            f"2 images, so choose {2 * world_size} or more"
        )
    if count < batch_size:
        raise UserError(
            f"there are {count:,} images, fewer than a batch of {batch_size:,}; "
            f"choose a batch size of at most {count:,} or give more images"
        )
