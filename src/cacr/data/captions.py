"""Captions of images: how many there are, and which ones are read."""

from collections.abc import Sequence

from cacr.data.source import Captions, Source
from cacr.data.stream import StreamSource
from cacr.errors import UserError
from cacr.files import printable
from cacr.randomness import numpy_generator

ASKED = 16
"""Number of first images of a stream that are checked for captions; some may have none."""


def most_captions(source: Source) -> int:
    """Largest number of captions of an image; 0 without captions. Of a stream only the first images are checked."""
    if isinstance(source, StreamSource):
        first = source.stream(range(len(source.shards)), 0, min(ASKED, len(source)))
        return max((len(image.captions or ()) for image in first), default=0)
    return max((len(sentences) for sentences in source.captions or ()), default=0)


def without_empty(captions: Captions) -> Captions:
    """The captions that are not empty."""
    return tuple(sentence for sentence in captions if sentence.strip())


def with_sentences(source: Source) -> Source:
    """A source without empty captions, with a note on their number.

    Raises:
        UserError: an image has no other caption; names it.
    """
    captions = source.captions or ()
    usable = tuple(without_empty(each) for each in captions)
    if bare := [number for number, each in enumerate(usable) if not each]:
        raise _without(source, bare)
    empty = sum(map(len, captions)) - sum(map(len, usable))
    if not empty:
        return source
    kept = source.with_notes(f"{empty:,} empty captions of {source.name} are left out")
    kept.captions = usable
    return kept


def with_all_captions(source: StreamSource) -> StreamSource:
    """The stream with the captions of all its images; its shards are read once for this.

    An image without captions is left out when it is read, as an unreadable one.
    """
    changed = source.with_notes()
    everything = source.stream(range(len(source.shards)), 0, len(source))
    changed.captions = tuple(without_empty(image.captions or ()) for image in everything)
    changed.captioned = True
    return changed


def drawn(captions: Captions, count: int, *place: int) -> list[str]:
    """``count`` captions of an image, drawn by seed, epoch and number; if it has fewer, captions are repeated."""
    order = numpy_generator("captions", *place).permutation(len(captions))
    return [captions[order[number % len(order)]] for number in range(count)]


def _without(source: Source, numbers: Sequence[int]) -> UserError:
    more = f" and {len(numbers) - 1:,} others" if len(numbers) > 1 else ""
    lacks = "have" if more else "has"
    return UserError(
        f"{printable(source.describe(numbers[0]))}{more} of {source.name} {lacks} no caption: give each image at "
        "least one sentence, or remove it"
    )
