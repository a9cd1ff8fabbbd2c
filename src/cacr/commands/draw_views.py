"""The contact sheet: what an encoder will see."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cacr.data import open_source, prepare
from cacr.errors import UserError
from cacr.files import appearing, require_new_file
from cacr.randomness import numpy_generator
from cacr.reporting import PICTURES
from cacr.training.resolve import describe, usual_preset, usual_size
from cacr.views import PRESETS, Views, contact_sheet

MOST_PIXELS = 80_000_000
"""Of a contact sheet: what picture viewers still open, and memory always has room for."""


def draw_sheet(
    data: str,
    out: Path,
    *,
    preset: str | None = None,
    views: int = 5,
    images: int = 8,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    data_root: Path = Path("data"),
    download: bool = False,
) -> None:
    """Draw views of a few images of ``data`` into the picture ``out``, a row for each image.

    Raises:
        UserError: ``out`` exists, or cannot be written; or there is no such data, preset or option.
    """
    require_new_file(out, PICTURES)
    source = prepare(open_source(data, root=Path(data_root), download=download)).source
    size = usual_size(describe(source).side)
    chosen = PRESETS[preset or usual_preset(data, size)]
    if preset is None:
        chosen = chosen.resized(size)
    chosen = chosen.with_options(**(options or {}))
    made = chosen.for_views(views)
    side = max(96, *(view.size for view in made))
    pixels = min(images, len(source)) * (views + 1) * side**2
    if pixels > MOST_PIXELS:
        raise UserError(
            f"the picture would have {pixels / 1e6:,.0f} million pixels, and at most {MOST_PIXELS / 1e6:,.0f} million "
            "can be drawn: show fewer --images or --views, or smaller ones"
        )
    rng = numpy_generator("sheet", seed)
    numbers = rng.choice(len(source), size=min(images, len(source)), replace=False)
    originals = [source.read(int(number)) for number in numbers]
    sheet = contact_sheet(originals, Views(made, chosen.mean, chosen.std), seed=seed)
    try:
        with appearing(out) as temporary:
            sheet.save(temporary)
    except ValueError as error:  # such as more pixels than the format can hold
        raise UserError(f"cannot write the picture {out}: {error}") from None
