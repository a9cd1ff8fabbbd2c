"""Frameworks: how the views of a batch become queries, keys and a loss."""

from cacr.methods.chunks import describe_chunks, encoded
from cacr.methods.framework import FRAMEWORKS, Framework, Negatives
from cacr.methods.gather import Exchange, exchanged, gather
from cacr.methods.in_batch import InBatch

__all__ = [
    "FRAMEWORKS",
    "Exchange",
    "Framework",
    "InBatch",
    "Negatives",
    "describe_chunks",
    "encoded",
    "exchanged",
    "gather",
]
