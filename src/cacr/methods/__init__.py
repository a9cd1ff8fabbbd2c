"""Frameworks: how the views of a batch become queries, keys and a loss."""

from cacr.methods.framework import FRAMEWORKS, Framework, Negatives
from cacr.methods.gather import gather
from cacr.methods.in_batch import InBatch

__all__ = ["FRAMEWORKS", "Framework", "InBatch", "Negatives", "gather"]
