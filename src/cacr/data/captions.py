"""Captions of images: how many there are, and which are read."""

from cacr.data.source import Captions, Source
from cacr.data.stream import StreamSource
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


def drawn(captions: Captions, count: int, *place: int) -> list[str]:
    """So many captions of an image, drawn from its place: seed, epoch and number. Where it has fewer, they repeat."""
    order = numpy_generator("captions", *place).permutation(len(captions))
    return [captions[order[number % len(order)]] for number in range(count)]
