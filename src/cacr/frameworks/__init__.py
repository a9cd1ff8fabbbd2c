"""Frameworks: how the views of a batch become queries, keys and a loss."""

from cacr.frameworks.chunks import describe_chunks, encode_twice, in_chunks
from cacr.frameworks.framework import FRAMEWORKS, Facts, Framework, NegativeCount
from cacr.frameworks.gather import Exchange, exchanged, gather
from cacr.frameworks.in_batch import InBatch
from cacr.frameworks.momentum import Momentum
from cacr.frameworks.queue import Queue

__all__ = [
    "FRAMEWORKS",
    "Exchange",
    "Facts",
    "Framework",
    "InBatch",
    "Momentum",
    "NegativeCount",
    "Queue",
    "describe_chunks",
    "encode_twice",
    "exchanged",
    "gather",
    "in_chunks",
]
