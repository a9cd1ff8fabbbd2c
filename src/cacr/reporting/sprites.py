"""Many small pictures in one file: a sheet of square cells."""

import math
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from cacr.data import Loader, Source
from cacr.data.levels import preview
from cacr.data.source import Indices
from cacr.features.machine import Machine

_QUALITIES = (88, 75, 60, 45, 30, 15, 5)


@dataclass
class Sheet:
    """Square pictures of one size, numbered from 0 in the order in which they are added.

    Attributes:
        side: Side of a cell, in pixels; a multiple of 16, so that no JPEG block covers two cells.
        most_bytes: The quality is lowered until the file is no larger than this.
    """

    side: int
    most_bytes: int
    cells: list[Image.Image] = field(default_factory=list)

    def add(self, picture: Image.Image) -> int:
        """Add a picture, which must have the sheet's size, and return its number."""
        self.cells.append(picture)
        return len(self.cells) - 1

    def packed(self) -> dict[str, Any] | None:
        """``{side, columns, rows, source}``, the last a data URI; None for an empty sheet."""
        if not self.cells:
            return None
        columns = math.ceil(math.sqrt(len(self.cells)))
        rows = math.ceil(len(self.cells) / columns)
        page = Image.new("RGB", (columns * self.side, rows * self.side))
        for number, cell in enumerate(self.cells):
            page.paste(cell, (number % columns * self.side, number // columns * self.side))
        for quality in _QUALITIES:
            file = BytesIO()
            page.save(file, "JPEG", quality=quality)
            if file.tell() <= self.most_bytes:
                break
        source = "data:image/jpeg;base64," + b64encode(file.getvalue()).decode()
        return {"side": self.side, "columns": columns, "rows": rows, "source": source}


@dataclass(frozen=True)
class SquareCrop:
    """The centre square of an image at a given size, for workers; small images are enlarged without smoothing."""

    side: int

    def picture(self, image: Image.Image) -> Image.Image:
        """An RGB image with this side."""
        edge = min(image.size)
        left, top = (image.width - edge) // 2, (image.height - edge) // 2
        filter_ = Image.Resampling.BICUBIC if edge > self.side else Image.Resampling.NEAREST
        square = image.crop((left, top, left + edge, top + edge))
        return square.resize((self.side, self.side), filter_)

    def __call__(self, image: Image.Image | Tensor, _: torch.Generator) -> list[Tensor]:
        """uint8 (1, 3, side, side), the format of a loader."""
        image = preview(image) if isinstance(image, Tensor) else image
        return [torch.from_numpy(np.array(self.picture(image))).permute(2, 0, 1)[None]]


def pictures(source: Source, numbers: Sequence[int], side: int, machine: Machine) -> Iterator[Image.Image]:
    """The centre squares of some images of a source, in ascending order of their numbers.

    Args:
        source: Images that are all readable.
        numbers: Ascending, each once.
        side: Side in pixels.
        machine: Has the number of decoding processes.
    """
    crop = SquareCrop(side)
    chosen: Indices = np.asarray(numbers, dtype=np.int64)
    if not len(chosen):
        return
    part = source.subset(chosen)
    if part.image_size is not None:  # nothing to decode
        yield from (crop.picture(part.read(number)) for number in range(len(part)))
        return
    loader = Loader(
        part,
        batch_size=min(256, len(part)),
        seed=0,
        workers=machine.workers,
        crop=crop,
        shuffle=False,
        at_least=side,
    )
    try:
        for batch in loader.epoch(0):
            for pixels in batch.images[0][0]:
                yield Image.fromarray(pixels.permute(1, 2, 0).numpy())
    finally:
        loader.close()


def cell_side(source: Source, most: int) -> int:
    """Side of a cell for the images of a source: ``most``, or less if its images are smaller."""
    if source.image_size is None:
        return most
    return min(most, 16 * math.ceil(min(source.image_size) / 16))
