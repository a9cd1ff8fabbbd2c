"""Frameworks: how the views of a batch become queries, keys and a loss. Import new frameworks here."""

from cacr.frameworks.chunks import describe_chunks, encode_twice, in_chunks
from cacr.frameworks.framework import (
    FRAMEWORKS,
    Facts,
    Framework,
    NegativeCount,
    Shared,
    batch_negatives,
    encode_views,
    pairs_with_keys,
)
from cacr.frameworks.gather import Exchange, exchanged, gather
from cacr.frameworks.image_text import ImageText
from cacr.frameworks.in_batch import InBatch
from cacr.frameworks.momentum import Momentum
from cacr.frameworks.prototypes import Prototypes
from cacr.frameworks.queue import Queue
from cacr.frameworks.siamese import Siamese

__all__ = [
    "FRAMEWORKS",
    "Exchange",
    "Facts",
    "Framework",
    "ImageText",
    "InBatch",
    "Momentum",
    "NegativeCount",
    "Prototypes",
    "Queue",
    "Shared",
    "Siamese",
    "batch_negatives",
    "describe_chunks",
    "encode_twice",
    "encode_views",
    "exchanged",
    "gather",
    "in_chunks",
    "pairs_with_keys",
]
