"""A contact sheet of views."""

from collections.abc import Sequence

from PIL import Image
from torch import Tensor

from cacr.views.pixels import as_bytes, as_rgb, unnormalised

_BACKGROUND = (255, 255, 255)


def contact_sheet(
    images: Sequence[Image.Image],
    made: Sequence[Tensor],
    mean: Sequence[float],
    std: Sequence[float],
    *,
    cell: int | None = None,
    gap: int = 4,
) -> Image.Image:
    """One row per image: the image itself and its views, with the normalisation undone.

    Args:
        images: RGB, of any size.
        made: Their views from `Views`: for each group of views, (views, images, 3, size, size).
        mean: Mean per channel that was subtracted.
        std: Standard deviation per channel that was divided by.
        cell: Side of the largest view on the page, in pixels; other views are scaled in proportion. By default views
            keep their size, and small ones are enlarged to 96 pixels.
        gap: White space between cells, in pixels.
    """
    columns = [
        view for run in made for view in as_bytes(as_rgb(unnormalised(run, mean, std))).permute(0, 1, 3, 4, 2)
    ]
    largest = max(column.shape[1] for column in columns)
    scale = (cell or max(96, largest)) / largest
    side = round(largest * scale)
    widths = [side] + [round(column.shape[1] * scale) for column in columns]
    lefts = [gap + sum(widths[:i]) + gap * i for i in range(len(widths))]
    page = Image.new("RGB", (lefts[-1] + widths[-1] + gap, gap + len(images) * (side + gap)), _BACKGROUND)
    for row, image in enumerate(images):
        top = gap + row * (side + gap)
        page.paste(fitted(image, side), (lefts[0], top))
        for column, width, left in zip(columns, widths[1:], lefts[1:], strict=True):
            page.paste(fitted(Image.fromarray(column[row].numpy()), width), (left, top))
    return page


def fitted(image: Image.Image, side: int) -> Image.Image:
    """The whole image with a longer side of ``side`` pixels; enlarged without smoothing, to show the pixels."""
    factor = side / max(image.size)
    size = (max(1, round(image.width * factor)), max(1, round(image.height * factor)))
    return image.resize(size, Image.Resampling.BICUBIC if factor < 1 else Image.Resampling.NEAREST)
