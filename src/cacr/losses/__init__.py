"""Objectives over embeddings of shape (views, images, dim), with their pairs and reductions."""

from cacr.losses.cacr import CACRLoss
from cacr.losses.objective import OBJECTIVES, NotFiniteError, Objective

__all__ = ["OBJECTIVES", "CACRLoss", "NotFiniteError", "Objective"]
