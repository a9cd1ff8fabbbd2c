"""Frameworks: how the views of a batch become queries, keys and a loss."""

from cacr.methods.chunks import describe_chunks, encode_twice, in_chunks
from cacr.methods.framework import FRAMEWORKS, Facts, Framework, Negatives
from cacr.methods.gather import Exchange, exchanged, gather
from cacr.methods.in_batch import InBatch
from cacr.methods.momentum import Momentum
from cacr.methods.queue import Queue

__all__ = [
    "FRAMEWORKS",
    "Exchange",
    "Facts",
    "Framework",
    "InBatch",
    "Momentum",
    "Negatives",
    "Queue",
    "describe_chunks",
    "encode_twice",
    "exchanged",
    "gather",
    "in_chunks",
]
