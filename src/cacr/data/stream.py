"""Images that are read in order, from archives that are too large or too far away for random access."""

from abc import abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from io import BytesIO
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cacr.data.source import Captions, Indices, Source
from cacr.decode import read_rgb
from cacr.errors import UnreadableImageError, UserError
from cacr.files import printable

T = TypeVar("T")


@dataclass(frozen=True)
class Raw:
    """One image of a stream, not yet decoded.

    Attributes:
        captioned: Whether an image without a caption is an error.
    """

    index: int
    where: str
    content: bytes
    label: int | None = None
    captions: Captions | None = None
    captioned: bool = False

    def decode(self, at_least: int | None = None) -> Image.Image:
        """The image as RGB (see ``decode.read_rgb``)."""
        if self.captioned and not any(sentence.strip() for sentence in self.captions or ()):
            raise UnreadableImageError(printable(self.where), "it has no caption")
        return read_rgb(BytesIO(self.content), printable(self.where), at_least)


@dataclass(frozen=True)
class Shard:
    """One archive of a stream: its location, and its number of images."""

    url: str
    count: int


class StreamSource(Source):
    """Images in shards that are read in order.

    Images are numbered through all shards. ``labels`` may be unknown even if the images have some: then they come
    with each image. A subset must be ascending, because a stream keeps its order.

    Attributes:
        captioned: Whether images without a caption are left out, as unreadable ones: this is known only when an image
            is read.
    """

    def __init__(
        self,
        name: str,
        shards: Sequence[Shard],
        *,
        labels: NDArray[np.integer] | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        super().__init__(name, labels=labels, notes=notes)
        self.shards = tuple(shards)
        self.captioned = False
        self._first = np.cumsum([0] + [shard.count for shard in shards])
        self._kept: Indices | None = None  # numbers through all shards, ascending; None: all

    @abstractmethod
    def read_shard(self, shard: Shard) -> Iterator[Raw]:
        """The images of a shard in order, numbered from 0."""

    def __len__(self) -> int:
        return int(self._first[-1]) if self._kept is None else len(self._kept)

    def describe(self, index: int) -> str:
        """The shard, and the position of the image in it."""
        number = index if self._kept is None else int(self._kept[index])
        shard = int(np.searchsorted(self._first, number, side="right")) - 1
        return f"{self.shards[shard].url}, image {number - self._first[shard]}"

    def read(self, index: int, at_least: int | None = None) -> Image.Image:
        """Decode one image; the shard is read up to it, so use this only for a few images."""
        bounds = self._bounds()
        shard = int(np.searchsorted(bounds, index, side="right")) - 1
        begin = index - int(bounds[shard])
        return next(self.stream([shard], begin, begin + 1)).decode(at_least)

    def stream(self, order: Sequence[int], begin: int, end: int) -> Iterator[Raw]:
        """Images ``begin`` to ``end`` of the shards, concatenated in this order.

        Shards before ``begin`` are not opened.
        """
        bounds = self._bounds()
        position = 0
        for number in order:
            count = int(bounds[number + 1] - bounds[number])
            first, last = max(begin - position, 0), min(end - position, count)
            if first < last:
                yield from self._stream_shard(number, int(bounds[number]), first, last)
            position += count

    def _stream_shard(self, number: int, index: int, first: int, last: int) -> Iterator[Raw]:
        """Kept images ``first`` to ``last`` of one shard, whose first kept image has the number ``index``."""
        shard = self.shards[number]
        places = np.arange(shard.count)
        if self._kept is not None:
            places = self._kept[index : int(self._bounds()[number + 1])] - self._first[number]
        wanted = {int(place): index + first + step for step, place in enumerate(places[first:last])}
        for place, raw in enumerate(self.read_shard(shard)):
            if place in wanted:
                yield replace(raw, index=wanted.pop(place), captioned=self.captioned)
                if not wanted:
                    return
        raise UserError(f"{shard.url} has fewer images than expected ({shard.count:,})")

    def _bounds(self) -> Indices:
        """(shards + 1,) the first number of each shard's kept images in this source."""
        return self._first if self._kept is None else np.searchsorted(self._kept, self._first)

    def _select(self, indices: Indices) -> None:
        if np.any(np.diff(indices) <= 0):
            raise ValueError("a subset of a stream must be ascending")
        self._kept = indices if self._kept is None else self._kept[indices]


def shuffled(items: Iterator[T], buffer: int, rng: np.random.Generator) -> Iterator[T]:
    """The items in another order: each one is drawn from the next ``buffer`` items."""
    held: list[T] = []
    for item in items:
        held.append(item)
        if len(held) > buffer:
            yield _draw(held, rng)
    while held:
        yield _draw(held, rng)


def _draw(held: list[T], rng: np.random.Generator) -> T:
    place = int(rng.integers(len(held)))
    held[place], held[-1] = held[-1], held[place]
    return held.pop()


def read_ahead(items: Iterator[T], depth: int) -> Iterator[T]:
    """The same items, fetched in a thread while the caller works on earlier ones."""
    end = object()
    thread = ThreadPoolExecutor(1)
    try:
        coming = deque(thread.submit(next, items, end) for _ in range(depth))
        while (item := coming.popleft().result()) is not end:
            coming.append(thread.submit(next, items, end))
            yield item  # type: ignore[misc]
    finally:
        thread.shutdown(wait=True, cancel_futures=True)
