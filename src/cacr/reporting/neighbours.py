"""The picture of a search: an image or words, and the images found."""

import io
import textwrap
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from cacr.features import Found
from cacr.files import printable, write_atomically
from cacr.views import fitted

CELL, GAP, COLUMNS = 160, 8, 6
PICTURES = (".png", ".jpg", ".jpeg", ".webp")
"""Allowed suffixes of the picture."""

_TEXT_SIZE = 13
_LINE = _TEXT_SIZE + 3


def write_neighbours(path: Path, found: Found) -> None:
    """Write the picture of a search; the file name decides the format."""
    buffer = io.BytesIO()
    draw_neighbours(found).save(buffer, format=Image.registered_extensions()[path.suffix.lower()])
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, buffer.getvalue())


def draw_neighbours(found: Found) -> Image.Image:
    """A page with the query first and then the nearest images, each with its cosine and its class or name."""
    if found.image is None:
        cells = [(_written(found.query), ("words", ""))]
    else:
        cells = [(found.image, ("query", found.query.rsplit("/", 1)[-1]))]
    for neighbour in found.neighbours:
        name = neighbour.label or neighbour.name.rsplit("/", 1)[-1]
        cells.append((found.source.read(neighbour.index, CELL), (f"{neighbour.similarity:.3f}", name)))
    columns = min(COLUMNS, len(cells))
    rows = -(-len(cells) // columns)
    height = CELL + 2 * _LINE + GAP
    page = Image.new("RGB", (GAP + columns * (CELL + GAP), GAP + rows * height), "white")
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(_TEXT_SIZE)
    for number, (image, lines) in enumerate(cells):
        left = GAP + number % columns * (CELL + GAP)
        top = GAP + number // columns * height
        shown = fitted(image, CELL)
        page.paste(shown, (left + (CELL - shown.width) // 2, top + (CELL - shown.height) // 2))
        for line, text in enumerate(lines):
            draw.text((left, top + CELL + 2 + line * _LINE), _shortened(printable(text), font), "black", font)
    return page


def _written(words: str) -> Image.Image:
    """Words instead of a picture, in several lines if needed."""
    page = Image.new("RGB", (CELL, CELL), "white")
    font = ImageFont.load_default(_TEXT_SIZE + 3)
    lines = textwrap.wrap(printable(words), width=CELL // 9)
    height = (_LINE + 4) * len(lines)
    for number, line in enumerate(lines):
        place = 4, max(0, (CELL - height) // 2) + number * (_LINE + 4)
        ImageDraw.Draw(page).text(place, line, "black", font)
    return page


def _shortened(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> str:
    """Shorten a text to fit under a cell; the end of a long name is kept, because it says more than the start."""
    if font.getlength(text) <= CELL:
        return text
    while text and font.getlength("…" + text) > CELL:
        text = text[1:]
    return "…" + text
