"""The pixels of one object, from annotations: polygons, or run lengths."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacr.errors import MissingExtraError

Pixels = NDArray[np.bool_]
Runs = NDArray[np.int64]
Points = NDArray[np.float64]

FURTHEST = 2
"""Points of a polygon may be outside of the image by at most this multiple of its size, which limits the memory."""


@dataclass(frozen=True)
class Mask:
    """Which pixels of an image belong to an object.

    Attributes:
        polygons: Corners (n, 2) of each part, x and y in pixels; empty if there are runs.
        runs: Lengths of runs outside and inside in turn, column by column; None if there are polygons.
    """

    polygons: tuple[Points, ...] = ()
    runs: Runs | None = None

    def pixels(self, height: int, width: int) -> Pixels:
        """(height, width), True inside."""
        if self.runs is not None:
            inside = np.repeat(np.arange(len(self.runs)) % 2 == 1, self.runs)
            return inside.reshape(width, height).T
        codes = require_pycocotools()
        drawn = codes.frPyObjects([polygon.ravel().tolist() for polygon in self.polygons], height, width)
        pixels: Pixels = codes.decode(codes.merge(drawn)).astype(bool)
        return pixels


def mask_of_polygons(parts: Sequence[Sequence[float]], height: int, width: int) -> Mask:
    """A mask from COCO's polygons, each x1, y1, x2, y2 and so on.

    Raises:
        ValueError: says what is wrong with them.
    """
    polygons = []
    for part in parts:
        if len(part) < 6 or len(part) % 2:
            raise ValueError("a polygon needs at least three points: x1, y1, x2, y2, ...")
        points = np.array(part, dtype=np.float64).reshape(-1, 2)
        size = np.array([width, height])
        if not np.isfinite(points).all() or (np.abs(points - size / 2) > (FURTHEST + 0.5) * size).any():
            raise ValueError("a polygon is far outside of the image")
        polygons.append(points)
    if not polygons:
        raise ValueError("the mask has no polygon")
    return Mask(polygons=tuple(polygons))


def mask_of_runs(counts: str | Sequence[int], size: Sequence[int], height: int, width: int) -> Mask:
    """A mask from COCO's run lengths, as a list or in COCO's compressed text.

    Raises:
        ValueError: says what is wrong with them. Runs beyond the end of the image are never returned.
    """
    if list(size) != [height, width]:
        raise ValueError(f"the mask has size {list(size)}, but the image has size {[height, width]}")
    wrong = "the runs of the mask do not add up to the pixels of the image"
    try:
        runs = np.array(uncompressed(counts) if isinstance(counts, str) else counts, dtype=np.int64)
    except OverflowError:
        raise ValueError(wrong) from None
    if runs.ndim != 1 or (runs < 0).any() or (runs > height * width).any() or runs.sum() != height * width:
        raise ValueError(wrong)
    return Mask(runs=runs)


def uncompressed(text: str) -> list[int]:
    """The run lengths in COCO's compressed text.

    Each character has five bits of a number (counted from ``0``); the sixth bit says that more follow, and the last
    character has the sign. From the third run on, the text has the difference from the run two before.
    """
    runs: list[int] = []
    value = shift = 0
    for sign in text:
        bits = ord(sign) - 48
        if not 0 <= bits < 64 or shift > 60:
            raise ValueError("the text of the mask is damaged")
        value |= (bits & 31) << shift
        shift += 5
        if bits & 32:
            continue
        if bits & 16:
            value -= 1 << shift
        runs.append(value + runs[-2] if len(runs) > 2 else value)
        value = shift = 0
    if shift:
        raise ValueError("the text of the mask is cut off")
    return runs


def require_pycocotools() -> Any:
    """The mask module of pycocotools, which is an optional package."""
    try:
        from pycocotools import mask
    except ImportError:
        raise MissingExtraError("detection and segmentation", "detection") from None
    return mask
