"""Captions of images: how many there are, and which are read."""

from collections.abc import Sequence

from cacr.data.source import Captions, Source
from cacr.data.stream import StreamSource
from cacr.errors import UserError
from cacr.files import printable
from cacr.randomness import numpy_generator

ASKED = 16
"""Images of a stream that are asked for their captions, from the first on: some may lack them."""


def most_captions(source: Source) -> int:
    """The most captions that an image of a source has; 0 where it has none. Of a stream the first images are asked."""
    if isinstance(source, StreamSource):
        first = source.stream(range(len(source.shards)), 0, min(ASKED, len(source)))
        return max((len(image.captions or ()) for image in first), default=0)
    return max((len(sentences) for sentences in source.captions or ()), default=0)


def without_empty(captions: Captions) -> Captions:
    """The sentences in which there is something."""
    return tuple(sentence for sentence in captions if sentence.strip())


def with_sentences(source: Source) -> Source:
    """A source with captions without those in which there is nothing, and with a note of how many these are.

    Raises:
        UserError: an image has no other; names it.
    """
    told = source.captions or ()
    usable = tuple(without_empty(each) for each in told)
    if bare := [number for number, each in enumerate(usable) if not each]:
        raise _without(source, bare)
    empty = sum(map(len, told)) - sum(map(len, usable))
    if not empty:
        return source
    kept = source.with_notes(f"{empty:,} empty captions of {source.name} are left out")
    kept.captions = usable
    return kept


def with_all_captions(source: StreamSource) -> StreamSource:
    """The stream with the captions of all its images, for which its shards are read once.

    An image without one is left out when it is read, as one that cannot be decoded is.
    """
    told = source.with_notes()
    everything = source.stream(range(len(source.shards)), 0, len(source))
    told.captions = tuple(without_empty(image.captions or ()) for image in everything)
    told.captioned = True
    return told


def drawn(captions: Captions, count: int, *place: int) -> list[str]:
    """So many captions of an image, drawn from its place: seed, epoch and number. Where it has fewer, they repeat."""
    order = numpy_generator("captions", *place).permutation(len(captions))
    return [captions[order[number % len(order)]] for number in range(count)]


def _without(source: Source, numbers: Sequence[int]) -> UserError:
    more = f" and {len(numbers) - 1:,} others" if len(numbers) > 1 else ""
    lacks = "have" if more else "has"
    return UserError(
        f"{printable(source.describe(numbers[0]))}{more} of {source.name} {lacks} no caption: give each image one "
        "sentence or more, or remove it"
    )
