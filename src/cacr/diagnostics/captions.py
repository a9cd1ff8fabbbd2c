"""Metrics of images and captions, and the check for collapsed captions."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from cacr.diagnostics.collapse import POINT, SPREAD, Found
from cacr.diagnostics.evidence import retrieval
from cacr.diagnostics.measures import effective_rank
from cacr.losses.engine.pairs import unit

ONE_LINE = 1.5
"""Smallest effective rank of captions; below it they vary in at most one direction."""


@torch.no_grad()
def measure_captions(images: Tensor, texts: Tensor) -> dict[str, float]:
    """How well one crop of each image and one of its captions find each other among all measured images.

    ``image_to_text`` and ``text_to_image`` are recall@1, with ties decided by a fair draw. ``caption_distance`` is the
    mean squared distance between an image and its caption, ``text_distance`` that between two captions.
    ``text_effective_rank`` is the effective rank of the captions.

    Args:
        images: (n, dim) embeddings of any length.
        texts: (n, dim) embeddings of their captions.
    """
    x, y = unit(images.double()), unit(texts.double())
    count = len(y)
    together = y.sum(0).square().sum() - y.square().sum()  # the sum of y_i.y_j over all i != j
    return {
        "image_to_text": retrieval(x, y).found,
        "text_to_image": retrieval(y, x).found,
        "caption_distance": float((x - y).square().sum(-1).mean()),
        "text_distance": float(2 - 2 * together / (count * (count - 1))),
        "text_effective_rank": effective_rank(y),
    }


def find_collapsed_captions(recent: Sequence[Mapping[str, Any]]) -> Found | None:
    """Whether all captions are one point or lie on one line; None for runs without captions."""
    if not all("text_distance" in row for row in recent):
        return None
    now = recent[-1]
    if all(row["text_distance"] < POINT for row in recent):
        told = f"two captions are {now['text_distance']:.2g} apart on average: the text encoder cannot tell them apart"
        return "collapsed to a point", [told], SPREAD
    if all(row["text_effective_rank"] < ONE_LINE for row in recent):
        told = f"captions vary in about {now['text_effective_rank']:.1f} dimensions (effective rank)"
        return "dimensional collapse", [told], SPREAD
    return None
