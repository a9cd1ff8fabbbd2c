"""Figures of images and captions that look for each other, and what is wrong with a text side."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from cacr.diagnostics.collapse import POINT, SPREAD, Found
from cacr.diagnostics.evidence import retrieval
from cacr.diagnostics.measures import effective_rank
from cacr.losses.engine.pairs import unit

ONE_LINE = 1.5
"""Effective rank of captions below which they differ in length of one direction at most."""


@torch.no_grad()
def measure_captions(images: Tensor, texts: Tensor) -> dict[str, float]:
    """How well one crop of each image and one caption of it find each other among all that are measured.

    ``image_to_text`` and ``text_to_image`` are recall@1, ties decided by a fair draw; ``caption_distance`` the mean
    squared distance of an image and its caption, ``text_distance`` that of two captions, ``text_effective_rank`` that
    of the captions.

    Args:
        images: (n, dim) embeddings of any length.
        texts: (n, dim) those of their captions.
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
    """All captions are one point, or lie on one line; nothing is said of runs without captions."""
    if not all("text_distance" in row for row in recent):
        return None
    now = recent[-1]
    if all(row["text_distance"] < POINT for row in recent):
        told = f"two captions are {now['text_distance']:.2g} apart on average: the text side tells no sentences apart"
        return "collapsed to a point", [told], SPREAD
    if all(row["text_effective_rank"] < ONE_LINE for row in recent):
        told = f"captions fill about {now['text_effective_rank']:.1f} dimensions (effective rank)"
        return "dimensional collapse", [told], SPREAD
    return None
