"""The best and the worst detections, drawn on their images."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO

import numpy as np
from PIL import Image, ImageDraw

from cacr.data.annotated import AnnotatedSource, Objects
from cacr.data.masks import require_pycocotools
from cacr.errors import UnreadableImageError
from cacr.evaluation.detection.found import Found
from cacr.evaluation.detection.metrics import iou
from cacr.files import printable

LEAST_SCORE = 0.5
"""Smallest score of detections that are drawn."""

OVERLAP = 0.5
"""Smallest IoU with which an object counts as found."""

EACH = 4
"""Number of best images, and of worst images."""

_WIDTH, _CAPTION = 320, 34
_TRUE, _FOUND, _WRONG = "#1b9e77", "#2f6fdd", "#d95f02"


@dataclass(frozen=True)
class Judged:
    """One image, and how well its detections agree with its objects.

    Attributes:
        index: Its number.
        hits: Number of objects that were found.
        missed: Number of objects that were not found.
        wrong: Number of detections without an object.
        right: For each drawn detection, whether it found an object.
    """

    index: int
    hits: int
    missed: int
    wrong: int
    right: tuple[bool, ...]

    @property
    def agreement(self) -> float:
        """F1: 2 hits / (2 hits + missed + wrong)."""
        return 2 * self.hits / max(1, 2 * self.hits + self.missed + self.wrong)


def judge(index: int, objects: Objects, found: Found) -> Judged:
    """Match the confident detections of an image with its objects, without crowds and difficult objects."""
    chosen = np.flatnonzero(found.scores >= LEAST_SCORE)
    overlaps = iou(found.boxes[chosen], objects.boxes)
    overlaps[found.classes[chosen][:, None] != objects.classes[None]] = 0
    counted = ~(objects.crowd | objects.difficult)
    taken = np.zeros(len(objects), dtype=bool)
    right, wrong = [], 0
    for row in overlaps:
        free = np.where(taken, 0, row)
        best = int(free.argmax()) if len(free) else -1
        hit = best >= 0 and free[best] >= OVERLAP
        right.append(bool(hit))
        if hit:
            taken[best] = not objects.crowd[best]  # a crowd may be found several times
        elif not (len(row) and row.max() >= OVERLAP and not counted[int(row.argmax())]):
            wrong += 1
    hits = int((taken & counted).sum())
    return Judged(index, hits, int(counted.sum()) - hits, wrong, tuple(right))


def chosen_images(judged: Sequence[Judged]) -> list[Judged]:
    """The best images, then the worst, each once; images without objects and detections are left out."""
    ranked = sorted((j for j in judged if j.hits + j.missed + j.wrong), key=lambda j: (-j.agreement, -j.hits))
    best = ranked[:EACH]
    worst = [j for j in ranked[::-1] if j not in best][:EACH]
    return best + worst


def sheet(source: AnnotatedSource, found: Sequence[Found], judged: Sequence[Judged]) -> bytes | None:
    """A JPEG of some images with their objects and detections; None if there is none to show."""
    cells = []
    for one in judged:
        try:
            cells.append(_cell(source, found[one.index], one))
        except UnreadableImageError:
            continue
    if not cells:
        return None
    columns = min(EACH, len(cells))
    rows = [cells[start : start + columns] for start in range(0, len(cells), columns)]
    heights = [max(cell.height for cell in row) for row in rows]
    page = Image.new("RGB", (columns * _WIDTH, sum(heights)), "white")
    for number, row in enumerate(rows):
        for place, cell in enumerate(row):
            page.paste(cell, (place * _WIDTH, sum(heights[:number])))
    file = BytesIO()
    page.save(file, "JPEG", quality=85)
    return file.getvalue()


def _cell(source: AnnotatedSource, found: Found, one: Judged) -> Image.Image:
    """One image with its objects and detections, and a caption below it."""
    image, objects = source.read(one.index), source.objects[one.index]
    scale = _WIDTH / image.width
    drawn = _with_masks(image, found).resize((_WIDTH, max(1, round(image.height * scale))))
    cell = Image.new("RGB", (_WIDTH, drawn.height + _CAPTION), "white")
    cell.paste(drawn, (0, 0))
    pen = ImageDraw.Draw(cell)
    for box in objects.boxes:
        pen.rectangle([float(side) * scale for side in box], outline=_TRUE, width=3)
    shown = np.flatnonzero(found.scores >= LEAST_SCORE)
    for n, right in zip(shown, one.right, strict=True):
        colour = _FOUND if right else _WRONG
        left, top, *rest = (float(side) * scale for side in found.boxes[n])
        pen.rectangle([left, top, *rest], outline=colour, width=1)
        name = _plain(source.categories[int(found.classes[n])])
        place, text = (left + 2, max(0.0, top - 11)), f"{name} {found.scores[n]:.2f}"
        pen.rectangle(pen.textbbox(place, text), fill="white")
        pen.text(place, text, fill=colour)
    name = _plain(source.paths[one.index].name)
    pen.text((4, drawn.height + 3), name[-48:], fill="black")
    counts = f"{one.hits} of {one.hits + one.missed} found, {one.wrong} wrong"
    pen.text((4, drawn.height + 17), counts, fill="black")
    return cell


def _with_masks(image: Image.Image, found: Found) -> Image.Image:
    """The image with the pixels of confident detections coloured."""
    if found.masks is None:
        return image
    codes, pixels = require_pycocotools(), np.array(image)
    tint = np.array([47, 111, 221])
    for n in np.flatnonzero(found.scores >= LEAST_SCORE):
        inside = codes.decode(found.masks[n]).astype(bool)
        pixels[inside] = (pixels[inside] // 2 + tint // 2).astype(np.uint8)
    return Image.fromarray(pixels)


def _plain(text: str) -> str:
    return printable(text).encode("ascii", errors="replace").decode()
